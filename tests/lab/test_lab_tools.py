"""Where does the tool set-up look, what does it refuse, and what does it say when it cannot?"""

import hashlib
import os
from pathlib import Path

import pytest

from guardrail.lab import tools as lab_tools
from guardrail.lab.apt import (
    Apt,
    AptFailed,
    Source,
    deb822_sources,
    list_sources,
    machine_sources,
    main_archive,
    release_codename,
    sha256,
)
from guardrail.lab.tools import ToolMissing, Tools, ensure, find

DEB822 = """\
Types: deb deb-src
# a comment between the fields
URIs: http://one.invalid/debian
  http://two.invalid/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://off.invalid/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://source.invalid/debian
Suites: bookworm
Components: main
"""

ONE_LINE = """\
# deb http://comment.invalid/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://one.invalid/debian bookworm main contrib # why
deb-src http://source.invalid/debian bookworm main
  deb http://two.invalid/security bookworm-security main
"""


def test_deb822_sources_are_read_without_disabled_and_source_only_stanzas() -> None:
    parts = ("main", "contrib")
    assert list(deb822_sources(DEB822)) == [
        Source("http://one.invalid/debian", "bookworm", parts),
        Source("http://one.invalid/debian", "bookworm-updates", parts),
        Source("http://two.invalid/debian", "bookworm", parts),
        Source("http://two.invalid/debian", "bookworm-updates", parts),
    ]


def test_one_line_sources_are_read_without_comments_options_and_source_lines() -> None:
    assert list(list_sources(ONE_LINE)) == [
        Source("http://one.invalid/debian", "bookworm", ("main", "contrib")),
        Source("http://two.invalid/security", "bookworm-security", ("main",)),
    ]


def test_the_machines_sources_are_read_from_all_its_files(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://a.invalid/d bookworm main\n")
    (parts / "b.sources").write_text("Types: deb\nURIs: http://b.invalid/d\nSuites: x\n")
    (parts / "c.list.disabled").write_text("deb http://c.invalid/d bookworm main\n")
    assert [s.uri for s in machine_sources(tmp_path)] == [
        "http://a.invalid/d",
        "http://b.invalid/d",
    ]


def test_the_archive_is_the_one_that_serves_the_release_itself() -> None:
    sources = (
        Source("http://security.invalid", "bookworm-security", ("main",)),
        Source("http://extra.invalid", "bookworm", ("contrib",)),
        Source("http://archive.invalid", "bookworm", ("main",)),
    )
    assert main_archive(sources, "bookworm") == "http://archive.invalid"
    with pytest.raises(AptFailed, match="no source for trixie main"):
        main_archive(sources, "trixie")


def test_the_codename_is_read_with_and_without_quotes(tmp_path: Path) -> None:
    file = tmp_path / "os-release"
    file.write_text('NAME="Debian"\nVERSION_CODENAME="bookworm"\n')
    assert release_codename(file) == "bookworm"
    file.write_text("NAME=Other\n")
    assert release_codename(file) == ""


def test_apt_is_given_private_folders_and_no_hooks(tmp_path: Path) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    fake = commands / "apt-get"
    fake.write_text('#!/bin/sh\ncat "$2"\n')
    fake.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
        text = Apt(tmp_path / "apt").run("update")
    for line in (
        "#clear APT::Update::Post-Invoke;",
        f'Dir::State::lists "{tmp_path}/apt/lists";',
        f'Dir::Cache "{tmp_path}/apt/cache";',
        'Dir::State::status "/var/lib/dpkg/status";',
    ):
        assert line in text


def test_the_reason_is_what_apt_could_not_fetch(tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "apt-get"
    fake.parent.mkdir()
    fake.write_text(
        "#!/bin/sh\n"
        "echo 'W: Failed to fetch http://one.invalid/InRelease  Cannot resolve' >&2\n"
        "echo 'E: Some index files failed to download.' >&2\nexit 100\n"
    )
    fake.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
        with pytest.raises(AptFailed, match=r"one\.invalid/InRelease Cannot resolve$"):
            Apt(tmp_path / "apt").update()


def test_without_a_package_manager_each_part_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(lab_tools, "SYSTEM_FOLDERS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ToolMissing) as fault:
        ensure(lambda _: None, tmp_path / "tools")
    lines = str(fault.value).splitlines()
    named = {line.partition(":")[0] for line in lines}
    assert named >= {*lab_tools.PROGRAMS, "consul"}
    assert all("there is no apt-get on this machine" in line for line in lines)
    assert all("then retry" in line for line in lines)


def test_a_cached_consul_with_another_digest_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(lab_tools, "_consul_on_path", lambda version: None)
    deb = tmp_path / "guardrail" / f"consul_{lab_tools.CONSUL_PACKAGE}_amd64.deb"
    deb.parent.mkdir()
    deb.write_bytes(b"not the package")
    tools = Tools(tmp_path / "tools", {}, None)
    (line,) = lab_tools._get_consul(tools, lambda _: None)
    assert hashlib.sha256(b"not the package").hexdigest() in line
    assert "remove it" in line
    assert not tools.consul().exists()


def consul_in(folder: Path, content: bytes) -> Tools:
    tools = Tools(folder, {}, None)
    tools.consul("1.8.7").parent.mkdir(parents=True)
    tools.consul("1.8.7").write_bytes(content)
    return tools


def test_the_copy_is_relabelled_and_says_so(tmp_path: Path) -> None:
    tools = consul_in(tmp_path, b"ELF...1.8.7...")
    lab_tools._relabel(tools, "1.8.7", "1.8.8")
    assert tools.consul("1.8.8").read_bytes() == b"ELF...1.8.8..."
    assert os.access(tools.consul("1.8.8"), os.X_OK)
    assert "RELABELLED" in tools.consul("1.8.8").with_name("RELABELLED.txt").read_text()


@pytest.mark.parametrize("content", [b"none", b"1.8.7 and 1.8.7"])
def test_a_binary_without_exactly_one_version_is_not_relabelled(
    tmp_path: Path, content: bytes
) -> None:
    tools = consul_in(tmp_path, content)
    with pytest.raises(AptFailed, match="cannot be relabelled"):
        lab_tools._relabel(tools, "1.8.7", "1.8.8")
    assert not tools.consul("1.8.8").exists()


def test_a_consul_of_another_version_on_path_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "consul"
    fake.write_text("#!/bin/sh\necho 'Consul v1.20.1'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert lab_tools._consul_on_path("1.8.7") is None
    assert lab_tools._consul_on_path("1.20.1") == fake


def test_programs_are_found_in_the_tool_folder_and_get_its_libraries(tmp_path: Path) -> None:
    program = tmp_path / "root" / "usr" / "sbin" / "mariadbd"
    library = tmp_path / "root" / "usr" / "lib" / "x" / "libfoo.so.1"
    for path in (program, library):
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        patch.setattr(lab_tools, "SYSTEM_FOLDERS", str(tmp_path))
        tools, missing = find(tmp_path)
    assert tools["mariadbd"] == program
    assert tools.environment("mariadbd") == {"LD_LIBRARY_PATH": str(library.parent)}
    assert "memcached" in missing
    assert "consul" in missing


def test_the_tool_folder_is_the_checkouts_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GUARDRAIL_TOOLS", raising=False)
    assert lab_tools.tool_folder() == Path(__file__).resolve().parents[2] / ".tools"
    monkeypatch.setenv("GUARDRAIL_TOOLS", "/elsewhere")
    assert lab_tools.tool_folder() == Path("/elsewhere")


def test_a_digest_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert sha256(tmp_path / "f") == hashlib.sha256(b"abc").hexdigest()
