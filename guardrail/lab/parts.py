"""Which processes make up a lab, with which arguments, on which address?

Central parts and each host's sshd are started by the supervisor; a host's own agents (Consul,
memcached, exporter) are started by its `lab-host`, as they will be restarted later, and leave
their pid in a file.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from guardrail.lab.hosts import sshd_users
from guardrail.lab.layout import EXPORTER_PORT, MEMCACHED_PORT, SSH_PORT, LabHost, Layout
from guardrail.lab.parameters import parameters
from guardrail.lab.processes import Identity, alive, read_pid_file
from guardrail.lab.tools import Tools

HOST_AGENTS = ("memcached", "exporter", "consul")


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the lab: `process` is its identity, or `pid_file` says where that stands."""

    name: str
    kind: str
    address: str
    port: int
    argv: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    log: str = ""
    process: Identity | None = None
    pid_file: str = ""

    def running(self) -> Identity | None:
        """The live process, or None."""
        found = read_pid_file(Path(self.pid_file)) if self.pid_file else self.process
        return found if found and alive(found) else None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Part":
        process = fields["process"]
        return cls(
            **{
                **fields,
                "argv": tuple(fields["argv"]),
                "process": Identity(**process) if process else None,
            }
        )


def consul_server(layout: Layout, tools: Tools) -> Part:
    """One server; what the agents join and the ring controller watches."""
    folder = layout.state / "consul"
    (folder / "config").mkdir(parents=True, exist_ok=True)
    settings = {
        "server": True,
        "bootstrap_expect": 1,
        "node_name": "consul-server",
        "bind_addr": layout.consul_address,
        "client_addr": layout.consul_address,
        "ports": {"dns": -1, "grpc": -1, "serf_wan": -1},
        "performance": {"raft_multiplier": 1},
        "session_ttl_min": "1s",
        "disable_update_check": True,
        "log_level": "WARN",
    }
    (folder / "config" / "server.json").write_text(json.dumps(settings))
    argv = (
        *(str(tools.consul()), "agent"),
        *("-config-dir", str(folder / "config"), "-data-dir", str(folder / "data")),
    )
    return _central(layout, "consul", layout.consul_address, 8500, argv)


def install_database(layout: Layout, tools: Tools) -> tuple[list[str], dict[str, str]]:
    """The command that makes an empty data folder, and its environment."""
    argv = [
        *(str(tools["mariadb-install-db"]), "--no-defaults"),
        *(f"--datadir={layout.state}/database", f"--user={layout.ssh_user}"),
        *("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"),
        "--force",  # else it insists that the machine's own name can be looked up
    ]
    if tools.unpacked("mariadb-install-db"):
        argv.append(f"--basedir={tools.root}/usr")
    return argv, tools.environment("mariadb-install-db")


def database(layout: Layout, tools: Tools) -> Part:
    """MariaDB with one table a shard; it sleeps more than it works, so it costs next to nothing."""
    numbers = parameters(layout.slots)
    sql = layout.state / "database.sql"
    sql.write_text("".join(_schema(numbers.shards, numbers.keys)))
    argv: tuple[str, ...] = (
        *(str(tools["mariadbd"]), "--no-defaults", f"--datadir={layout.state}/database"),
        *(f"--user={layout.ssh_user}", f"--bind-address={layout.database_address}", "--port=3306"),
        *("--socket=db.sock", f"--pid-file={layout.state}/database.pid", "--skip-grant-tables"),
        *("--skip-name-resolve", "--max-connections=40", "--skip-log-bin"),
        *("--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0"),
        *("--innodb-use-native-aio=0", f"--init-file={sql}"),
    )
    if tools.unpacked("mariadbd"):
        argv += (
            *(f"--basedir={tools.root}/usr", f"--lc-messages-dir={tools.root}/usr/share/mysql"),
            *(f"--plugin-dir={tools.root}/usr/lib/mysql/plugin",),
        )
    environment = tools.environment("mariadbd")
    return _central(
        layout, "database", layout.database_address, 3306, argv, environment=environment
    )


def _schema(shards: int, keys: int) -> Iterator[str]:
    # The init file takes one statement a line.
    yield "create database if not exists lab;\n"
    for shard in range(shards):
        table = f"lab.s{shard}"
        yield f"create table if not exists {table} (id int primary key, v varchar(100));\n"
        yield f"insert ignore into {table} select seq, 'v' from lab.seq_1_to_{keys};\n"  # noqa: S608


def prometheus(layout: Layout, tools: Tools) -> Part:
    """A scrape a second, targets fixed: discovery from files would take 5 s to notice."""
    folder = layout.state / "prometheus"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(json.dumps(_scrapes(layout), indent=1))
    listen = layout.prometheus_url.removeprefix("http://")
    argv = (
        *(str(tools["prometheus"]), f"--config.file={folder}/prometheus.yml"),
        *(f"--storage.tsdb.path={folder}/data", f"--web.listen-address={listen}"),
        *("--storage.tsdb.retention.time=6h", "--log.level=warn"),
    )
    address, _, port = listen.partition(":")
    environment = tools.environment("prometheus")
    return _central(layout, "prometheus", address, int(port), argv, environment=environment)


def _scrapes(layout: Layout) -> dict[str, Any]:
    def job(name: str, url: str) -> dict[str, Any]:
        return {
            "job_name": name,
            "static_configs": [{"targets": [url.removeprefix("http://")]}],
        }

    probes = {
        "job_name": "memcached",
        "metrics_path": "/probe",
        "static_configs": [
            {"targets": [host.name], "labels": {"host": host.name, "zone": host.zone}}
            for host in layout.hosts
        ],
        "relabel_configs": [
            {"source_labels": ["__address__"], "target_label": "__param_target"},
            {"source_labels": ["__address__"], "target_label": "instance"},
            {
                "target_label": "__address__",
                "replacement": layout.ring_url.removeprefix("http://"),
            },
        ],
    }
    exporters = {
        "job_name": "exporter",
        "scrape_interval": "2s",
        "static_configs": [
            {
                "targets": [host.exporter_url.removeprefix("http://")],
                "labels": {"host": host.name, "zone": host.zone},
            }
            for host in layout.hosts
        ],
    }
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "900ms"},
        "scrape_configs": [
            job("boot", layout.boot_url),
            job("load", layout.load_url),
            job("ring", layout.ring_url),
            probes,
            exporters,
        ],
    }


def python_part(layout: Layout, name: str, url: str) -> Part:
    """One of the lab's own processes: boot, load or ring."""
    address, _, port = url.removeprefix("http://").partition(":")
    argv = (sys.executable, "-m", f"guardrail.lab.{name}", *layout.as_arguments())
    own = str(Path(__file__).resolve().parents[2])
    environment = {"PYTHONPATH": ":".join(filter(None, (own, os.environ.get("PYTHONPATH"))))}
    return _central(layout, name, address, int(port), argv, environment=environment)


def sshd(layout: Layout, host: LabHost, tools: Tools) -> Part:
    """The host's own SSH server, in the foreground."""
    environment = tools.environment("sshd")
    if os.geteuid() == 0 and tools.nss_wrapper:
        environment |= {"LD_PRELOAD": str(tools.nss_wrapper), **sshd_users(layout)}
    argv = (str(tools["sshd"]), "-D", "-e", "-f", str(host.folder / "ssh" / "sshd_config"))
    return Part(
        name=f"{host.name}/sshd",
        kind="sshd",
        address=host.address,
        port=SSH_PORT,
        argv=argv,
        environment=environment,
        log=str(host.folder / "run" / "sshd.out"),
    )


def host_agent(host: LabHost, agent: str) -> Part:
    """A process that the host's `lab-host` starts and restarts."""
    ports = {"memcached": MEMCACHED_PORT, "exporter": EXPORTER_PORT, "consul": 8500}
    return Part(
        name=f"{host.name}/{agent}",
        kind=agent,
        address=host.address,
        port=ports[agent],
        argv=(str(host.folder / "bin" / "lab-host"), "start", agent),
        log=str(host.folder / "run" / f"{agent}.out"),
        pid_file=str(host.pid_file(agent)),
    )


def _central(
    layout: Layout,
    name: str,
    address: str,
    port: int,
    argv: tuple[str, ...],
    *,
    environment: dict[str, str] | None = None,
) -> Part:
    return Part(
        name=name,
        kind=name,
        address=address,
        port=port,
        argv=argv,
        environment=environment or {},
        log=str(layout.logs / f"{name}.log"),
    )
