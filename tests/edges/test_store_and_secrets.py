"""Are plans what their digests say, and are secrets only where they are asked for?"""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardrail.edges.secrets import Sealed, read_secret
from guardrail.edges.store import PlanFolder, default_place, digest_of
from guardrail.errors import Refused, Unanswered
from guardrail.model.common import Secret


def places(tmp_path: Path) -> list[PlanFolder]:
    return [
        PlanFolder(str(tmp_path / "plans")),
        PlanFolder(f"file://{tmp_path}/url"),
        PlanFolder(f"memory://{tmp_path.name}"),
    ]


def test_what_is_put_is_found_under_its_digest(tmp_path: Path) -> None:
    for store in places(tmp_path):
        for data in (b"", b"plan", bytes(range(256)) * 4096):
            digest = store.put(data)
            assert digest == digest_of(data)
            assert store.put(data) == digest
            assert store.get(digest) == data


@given(data=st.binary(max_size=100))
def test_bytes_come_back(data: bytes) -> None:
    store = PlanFolder("memory://property")
    assert store.get(store.put(data)) == data


def stored(tmp_path: Path) -> tuple[PlanFolder, str, Path]:
    store = PlanFolder(str(tmp_path))
    digest = store.put(b"plan")
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    return store, digest, path


@pytest.mark.parametrize("damage", [b"Plan", b"", b"plan "])
def test_a_changed_plan_is_refused_and_can_be_put_again(tmp_path: Path, damage: bytes) -> None:
    store, digest, path = stored(tmp_path)
    path.write_bytes(damage)
    with pytest.raises(Refused, match="not what its name says"):
        store.get(digest)
    assert store.get(store.put(b"plan")) == b"plan"


def test_a_missing_plan_is_unanswered(tmp_path: Path) -> None:
    store, digest, path = stored(tmp_path)
    path.unlink()
    with pytest.raises(Unanswered, match=f"it has no {digest}"):
        store.get(digest)


@pytest.mark.parametrize("digest", ["", "sha256:", "../../etc/passwd", "sha256:" + "g" * 64])
def test_what_is_no_digest_is_refused(tmp_path: Path, digest: str) -> None:
    with pytest.raises(Refused, match="64 hexadecimal digits"):
        PlanFolder(str(tmp_path)).get(digest)


def test_a_place_that_cannot_be_written_is_unanswered(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unanswered, match="plan store"):
        PlanFolder(str(tmp_path / "file" / "plans")).put(b"plan")
    with pytest.raises(Refused, match="no place for plans"):
        PlanFolder("nosuch://x")


def test_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    data = b"x" * 1_000_000
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(lambda _: PlanFolder(str(tmp_path)).put(data), range(16)))
    assert digests == {digest_of(data)}
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_the_default_place_is_under_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_place() == str(tmp_path / "guardrail" / "plans")
    assert PlanFolder().place == default_place()


# ---------------------------------------------------------------- secrets


def test_a_secret_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s").write_bytes(b"from file\n")
    monkeypatch.setenv("SECRET_HERE", "from env")
    assert read_secret(Secret("file", str(tmp_path / "s"))).text() == "from file"
    assert read_secret(Secret("file", str(tmp_path / "s"))).reveal() == b"from file\n"
    assert read_secret(Secret("env", "SECRET_HERE")).text() == "from env"


def test_a_secret_shows_itself_to_nobody() -> None:
    sealed = Sealed(b"hunter2")
    shown = [repr(sealed), str(sealed), f"{sealed}", f"{[sealed]}", f"{ {'k': sealed} }"]
    assert not any("hunter2" in text for text in shown)
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not to be stored"):
            take(sealed)


@pytest.mark.parametrize("content", [b"", b" \n", None, b"x" * (1024 * 1024 + 1)])
def test_what_is_no_secret_is_refused_by_its_place(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "s"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Refused, match=str(path)):
        read_secret(Secret("file", str(path)))


def test_an_unset_variable_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_HERE", raising=False)
    with pytest.raises(Refused, match="NOT_HERE is not set"):
        read_secret(Secret("env", "NOT_HERE"))
    monkeypatch.setenv("NOT_HERE", "")
    with pytest.raises(Refused, match="NOT_HERE is empty"):
        read_secret(Secret("env", "NOT_HERE"))


def test_bytes_that_are_no_text_are_refused_unseen(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"\xff\xfehunter2")
    with pytest.raises(Refused) as caught:
        read_secret(Secret("file", str(tmp_path / "s"))).text()
    assert "hunter2" not in str(caught.value)
