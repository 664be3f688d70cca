"""Which programs does the lab run, where are they on this machine, and how are missing ones got?

`python -m guardrail.lab.tools` gets everything and says where it is. Each program is looked for
on PATH and in the tool folder (GUARDRAIL_TOOLS, else `.tools` of the checkout); what is missing
is unpacked there from the distribution's own packages, without root and without a change to the
system. When all is there it takes a few milliseconds.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from guardrail.errors import GuardrailError
from guardrail.lab.apt import (
    ARCHIVE_KEYRING,
    Apt,
    AptFailed,
    machine_sources,
    main_archive,
    release_codename,
    sha256,
    unpack,
)
from guardrail.lab.layout import CONSUL_VERSIONS

Report = Callable[[str], None]

CONSUL_RELEASE = "bullseye"
CONSUL_PACKAGE = "1.8.7+dfsg1-2+b3"
CONSUL_SHA256 = "e4e888bba104daba1d9161f49bfc52649a7e4efd45b1a7ead5bc54f2cb9c89d9"
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"

# The program's names, the packages that hold it, and whether only root needs it.
PROGRAMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "memcached": (("memcached",), ("memcached",)),
    "mariadbd": (("mariadbd",), ("mariadb-server-core", "mariadb-client-core")),
    "mariadb-install-db": (
        ("mariadb-install-db", "mysql_install_db"),
        ("mariadb-server-core", "mariadb-client-core"),
    ),
    "prometheus": (("prometheus",), ("prometheus",)),
    "sshd": (("sshd",), ("openssh-server",)),
    "ssh-keygen": (("ssh-keygen",), ("openssh-client",)),
}
CONSUL_ROOT = "consul-root"
NSS_WRAPPER = "libnss_wrapper.so"

_RELABELLED = """\
consul in this folder is a RELABELLED copy of Consul {old}, made by the guardrail lab: the one
occurrence of the bytes "{old}" in the binary was replaced by "{new}". It has no new behaviour and
is no release of HashiCorp's. It exists so that the lab has a second version to upgrade to. For the
lab only.
"""


class ToolMissing(GuardrailError):
    """Programs cannot be had here; one line for each says which, why, and what to do."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Tools:
    """Where each program is. `root` holds what was unpacked; `artifacts` the versions for hosts."""

    folder: Path
    programs: dict[str, Path]
    nss_wrapper: Path | None

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def artifacts(self) -> Path:
        """The hosts' package repository: AGENT/VERSION/AGENT."""
        return self.folder / "artifacts"

    def consul(self, version: str = CONSUL_VERSIONS[0]) -> Path:
        return self.artifacts / "consul" / version / "consul"

    def __getitem__(self, name: str) -> Path:
        return self.programs[name]

    def unpacked(self, name: str) -> bool:
        """Whether this program runs from the tool folder, with the libraries beside it."""
        return self.programs[name].is_relative_to(self.root)

    def environment(self, name: str) -> dict[str, str]:
        """What must be added to the environment of this program."""
        return (
            {"LD_LIBRARY_PATH": ":".join(library_folders(self.root))} if self.unpacked(name) else {}
        )


def tool_folder() -> Path:
    """GUARDRAIL_TOOLS, else `.tools` of the checkout, else a folder under the XDG data folder."""
    if named := os.environ.get("GUARDRAIL_TOOLS"):
        return Path(named).absolute()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / ".tools"
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "guardrail" / "tools"


def cache_folder() -> Path:
    """Where the Consul package is kept for the next checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "guardrail"


def library_folders(root: Path) -> list[str]:
    """The unpacked folders that hold shared libraries."""
    found = {str(path.parent) for path in root.glob("usr/lib/*/*.so*")}
    return sorted(found | {str(path.parent) for path in root.glob("lib/*/*.so*")})


def _search_path(folder: Path) -> str:
    own = [str(folder / "root" / part) for part in ("usr/sbin", "usr/bin", "sbin", "bin")]
    return ":".join([os.environ.get("PATH", ""), SYSTEM_FOLDERS, *own])


def _find_program(names: tuple[str, ...], folder: Path) -> Path | None:
    for name in names:
        if found := shutil.which(name, path=_search_path(folder)):
            return Path(found)
    return None


def _find_nss_wrapper(folder: Path) -> Path | None:
    for base in (Path("/"), folder / "root"):
        for found in sorted(base.glob(f"usr/lib/*/{NSS_WRAPPER}")):
            return found
    return None


def find(folder: Path | None = None) -> tuple[Tools, tuple[str, ...]]:
    """What is there now, and the names of what is not ("consul" stands for both versions)."""
    folder = folder or tool_folder()
    found = {name: _find_program(names, folder) for name, (names, _) in PROGRAMS.items()}
    tools = Tools(
        folder=folder,
        programs={name: path for name, path in found.items() if path},
        nss_wrapper=_find_nss_wrapper(folder),
    )
    missing = [name for name, path in found.items() if not path]
    # Root's sshd wants a user "sshd" and an unlocked root: the wrapper says so, to it alone.
    if os.geteuid() == 0 and not tools.nss_wrapper:
        missing.append("nss-wrapper")
    if not all(tools.consul(version).is_file() for version in CONSUL_VERSIONS):
        missing.append("consul")
    return tools, tuple(missing)


def ensure(report: Report = print, folder: Path | None = None) -> Tools:
    """Everything the lab runs, got if need be; raises ToolMissing with a line for each part."""
    folder = folder or tool_folder()
    tools, missing = find(folder)
    if not missing:
        return tools
    with _alone(folder):
        tools, missing = find(folder)  # another process may have got them meanwhile
        faults = list(_get_packages(folder, missing, report))
        if "consul" in missing:
            faults += _get_consul(tools, report)
        tools, missing = find(folder)
    if faults or missing:
        left = [
            f"{name}: not found after unpacking; install it so that it is on PATH"
            for name in missing
        ]
        raise ToolMissing("\n".join(faults or left))
    return tools


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _get_packages(folder: Path, missing: tuple[str, ...], report: Report) -> Iterator[str]:
    """Unpack the packages of the missing programs; yields a line for each that cannot be had."""
    wanted = {name: PROGRAMS[name][1] for name in missing if name in PROGRAMS}
    if "nss-wrapper" in missing:
        wanted["nss-wrapper"] = ("libnss-wrapper",)
    if not wanted:
        return
    apt = Apt(folder / "apt")
    try:
        report("tools: fetching the package lists (private to this folder)")
        apt.update()
    except AptFailed as fault:
        for name, packages in wanted.items():
            yield _advice(name, fault, packages)
        return
    specs: set[str] = set()
    for name, packages in wanted.items():
        try:
            specs |= set(apt.lacking(*packages))
        except AptFailed as fault:
            yield _advice(name, fault, packages)
    if specs:
        report(f"tools: fetching {len(specs)} packages for {', '.join(wanted)}")
        try:
            unpack(apt.download(*sorted(specs)), folder / "root")
        except AptFailed as fault:
            yield _advice(", ".join(wanted), fault, tuple(sorted(specs)))


def _advice(name: str, fault: Exception, packages: tuple[str, ...]) -> str:
    return (
        f"{name}: {fault}; install {' '.join(packages)} by hand so that it is on PATH, then retry"
    )


def _get_consul(tools: Tools, report: Report) -> Iterator[str]:
    """Consul and its relabelled copy; yields one line when it cannot be had."""
    old, new = CONSUL_VERSIONS
    try:
        original = _consul_on_path(old) or _unpack_consul(tools.folder, report)
        _keep(original.read_bytes(), tools.consul(old))
        shutil.rmtree(tools.folder / CONSUL_ROOT, ignore_errors=True)
        _relabel(tools, old, new)
        report(f"tools: consul {new} is a relabelled {old}, for the lab only: no new behaviour")
    except AptFailed as fault:
        yield (
            f"consul: {fault}; put consul_{CONSUL_PACKAGE}_amd64.deb (sha256 {CONSUL_SHA256}) into "
            f"{cache_folder()} or Consul {old} on PATH, then retry"
        )


def _consul_on_path(version: str) -> Path | None:
    """A consul on PATH counts only if it is the very version the lab was measured with."""
    found = shutil.which("consul")
    if not found:
        return None
    says = subprocess.run([found, "version"], capture_output=True, text=True, check=False).stdout
    return Path(found) if says.splitlines()[:1] == [f"Consul v{version}"] else None


def _unpack_consul(folder: Path, report: Report) -> Path:
    deb = cache_folder() / f"consul_{CONSUL_PACKAGE}_amd64.deb"
    if not deb.is_file():
        report(f"tools: fetching consul {CONSUL_PACKAGE} from the {CONSUL_RELEASE} release")
        _keep(_download_consul(folder).read_bytes(), deb)
    if (digest := sha256(deb)) != CONSUL_SHA256:
        raise AptFailed(f"{deb} has sha256 {digest}, not the expected one; remove it")
    unpack((deb,), folder / CONSUL_ROOT)
    return folder / CONSUL_ROOT / "usr" / "bin" / "consul"


def _download_consul(folder: Path) -> Path:
    """By apt, from the archive this machine uses, signature checked with the archive keyring."""
    if not ARCHIVE_KEYRING.is_file():
        raise AptFailed(f"{ARCHIVE_KEYRING} is missing (package debian-archive-keyring)")
    archive = main_archive(machine_sources(), release_codename())
    private = folder / "apt-consul"
    private.mkdir(parents=True, exist_ok=True)
    sources = private / "consul.list"
    sources.write_text(f"deb [signed-by={ARCHIVE_KEYRING}] {archive} {CONSUL_RELEASE} main\n")
    apt = Apt(private, sources)
    apt.update()
    return apt.download(f"consul={CONSUL_PACKAGE}")[0]


def _keep(content: bytes, path: Path) -> None:
    """Write whole or not at all, executable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(content)
    part.chmod(0o755)
    part.replace(path)


def _relabel(tools: Tools, old: str, new: str) -> None:
    content = tools.consul(old).read_bytes()
    if (hits := content.count(old.encode())) != 1:
        raise AptFailed(f"{tools.consul(old)} holds {old} {hits} times, so it cannot be relabelled")
    _keep(content.replace(old.encode(), new.encode()), tools.consul(new))
    note = tools.consul(new).with_name("RELABELLED.txt")
    note.write_text(_RELABELLED.format(old=old, new=new))


def main() -> int:
    """Get everything; 0 when all is there."""
    try:
        tools = ensure(lambda line: print(line, flush=True))
    except ToolMissing as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code
    for name, path in sorted(tools.programs.items()):
        print(f"{name:20} {path}")
    for version in CONSUL_VERSIONS:
        print(f"{f'consul {version}':20} {tools.consul(version)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
