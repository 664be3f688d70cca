"""How does the lab get a distribution package without root and without touching the machine's apt?

apt runs as it is configured on this machine (its sources, its keys, its proxies), but with
lists, cache and state in a private folder and the system's package status read only. What the
machine lacks is downloaded, checked by apt against the archive's signature, and unpacked with
dpkg-deb into a folder of ours; nothing is installed, no maintainer script runs.

`python -m guardrail.lab.apt FOLDER PACKAGE…` unpacks packages without their dependencies: the
set-up gets pip by it. So this module needs Python's standard library and nothing else.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from guardrail.errors import GuardrailError

SYSTEM_STATUS = Path("/var/lib/dpkg/status")
ARCHIVE_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# A second C library beside the machine's own dynamic loader crashes whatever is started with it.
NEVER_UNPACKED = frozenset({"libc6", "libc-bin", "libc-l10n", "locales", "libgcc-s1", "debconf"})

_CONFIGURATION = """\
// Written by the guardrail lab. Hooks are cleared: they would clean the system's own cache.
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Post-Invoke;
Dir::State "{folder}/state";
Dir::State::lists "{folder}/lists";
Dir::State::status "{status}";
Dir::Cache "{folder}/cache";
Dir::Log "{folder}/log";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
"""


class AptFailed(GuardrailError):
    """apt could not do what was asked; the message is its own reason."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Source:
    """One archive as the machine's apt names it."""

    uri: str
    suite: str
    components: tuple[str, ...]


def list_sources(text: str) -> Iterator[Source]:
    """Sources of a one-line-style `.list` file; options in brackets are passed over."""
    pattern = re.compile(r"^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+([^#]+)")
    for line in text.splitlines():
        if found := pattern.match(line):
            yield Source(found[1], found[2], tuple(found[3].split()))


def deb822_sources(text: str) -> Iterator[Source]:
    """Sources of a deb822-style `.sources` file; disabled stanzas are passed over."""
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", body):
        fields: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line[:1].isspace():
                fields[key] = f"{fields.get(key, '')} {line.strip()}"
            elif ":" in line:
                key, _, value = line.partition(":")
                key = key.strip().lower()
                fields[key] = value.strip()
        if fields.get("enabled", "yes").lower() in {"no", "false"}:
            continue
        if "deb" not in fields.get("types", "").split():
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield Source(uri, suite, tuple(fields.get("components", "").split()))


def machine_sources(etc: Path = Path("/etc/apt")) -> tuple[Source, ...]:
    """Every binary source that the machine's apt is configured with."""
    found: list[Source] = []
    for path in (etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))):
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".list":
            found += list_sources(text)
        elif path.suffix == ".sources":
            found += deb822_sources(text)
    return tuple(found)


def main_archive(sources: tuple[Source, ...], codename: str) -> str:
    """The URI from which this machine gets its release's `main`; raises AptFailed without one."""
    names = {codename, "stable", "oldstable"}
    for source in sources:
        if source.suite in names and "main" in source.components:
            return source.uri
    raise AptFailed(f"apt is configured with no source for {codename} main")


def release_codename(os_release: Path = Path("/etc/os-release")) -> str:
    """For example bookworm; empty where the file does not say."""
    found = re.search(r'^VERSION_CODENAME="?([^"\n]+)', os_release.read_text(), re.MULTILINE)
    return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class Apt:
    """apt-get with private folders below `folder`; `sources` replaces the machine's own."""

    folder: Path
    sources: Path | None = None

    def _configuration(self) -> Path:
        for part in ("state", "lists/partial", "cache/archives/partial", "log", "debs"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        text = _CONFIGURATION.format(folder=self.folder, status=SYSTEM_STATUS)
        if self.sources:
            text += f'Dir::Etc::sourcelist "{self.sources}";\nDir::Etc::sourceparts "-";\n'
        path = self.folder / "apt.conf"
        path.write_text(text)
        return path

    def run(self, *arguments: str) -> str:
        """What apt-get printed; raises AptFailed with its own reason."""
        if not shutil.which("apt-get"):
            raise AptFailed("there is no apt-get on this machine")
        done = subprocess.run(
            ["apt-get", "-c", str(self._configuration()), "-q", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder / "debs",
            env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
        )
        if done.returncode:
            raise AptFailed(_why(done.stderr) or f"apt-get {arguments[0]} failed")
        return done.stdout

    def update(self) -> None:
        """Fetch the lists. A source that does not answer is an error, not a warning."""
        self.run("update", "-o", "APT::Update::Error-Mode=any")

    def lacking(self, *packages: str) -> tuple[str, ...]:
        """The packages and dependencies that the machine lacks, each as NAME=VERSION."""
        plan = self.run("-s", "--no-install-recommends", "install", *packages)
        # A later version may be installed than the archive's: name the asked ones in any case.
        asked = {name: name for name in packages}
        for line in plan.splitlines():
            if found := re.match(r"Inst (\S+) (?:\[[^\]]*\] )?\((\S+)", line):
                name = found[1].partition(":")[0]
                asked[name] = f"{name}={found[2]}"
        return tuple(spec for name, spec in asked.items() if name not in NEVER_UNPACKED)

    def download(self, *specs: str) -> tuple[Path, ...]:
        """The .deb files, in this folder's `debs`; apt has checked each one's hash."""
        folder = self.folder / "debs"
        shutil.rmtree(folder, ignore_errors=True)
        self.run("download", *specs)
        return tuple(sorted(folder.glob("*.deb")))


def _why(stderr: str) -> str:
    """apt's own reason: what it could not fetch, where it says so, else its last error."""
    said = [line for line in stderr.splitlines() if line.startswith(("E:", "W:"))]
    fetched = [line for line in said if line[3:].startswith("Failed to fetch")]
    return " ".join((fetched[:1] or said[-1:] or [""])[0].split())


def unpack(debs: tuple[Path, ...], into: Path) -> None:
    """Unpack archives as files; no maintainer script runs. Raises AptFailed."""
    if not shutil.which("dpkg-deb"):
        raise AptFailed("there is no dpkg-deb on this machine")
    into.mkdir(parents=True, exist_ok=True)
    for deb in debs:
        done = subprocess.run(["dpkg-deb", "-x", deb, into], capture_output=True, check=False)
        if done.returncode:
            raise AptFailed(f"{deb.name}: {done.stderr.decode(errors='replace').strip()}")


def sha256(path: Path) -> str:
    """The file's digest in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def main(folder: str, *packages: str) -> int:
    """Unpack these packages, and none that they depend on, into `folder`/root; 0 when done."""
    apt = Apt(Path(folder).absolute() / "apt")
    try:
        apt.update()
        unpack(apt.download(*packages), Path(folder).absolute() / "root")
    except AptFailed as fault:
        print(f"{', '.join(packages)}: {fault}", file=sys.stderr)
        return fault.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
