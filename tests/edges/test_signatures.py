"""Whose signature is it? Asked of a real ssh-keygen, with keys that are made here."""

from pathlib import Path

import pytest
from signing_keys import key, line, signed_for

from guardrail.edges.signatures import MOST_SIGNATURE, sign, signer_of
from guardrail.errors import Refused
from guardrail.model.identity import Signer

TEXT = "guardrail statement 1\nverb: approve\nplan: sha256:1\n"

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("keys")
    return {name: key(folder, name) for name in ("bob", "cid", "eve")}


@pytest.fixture
def allowed(tmp_path: Path, keys: dict[str, Path]) -> Path:
    path = tmp_path / "allowed_signers"
    path.write_text(line("bob,storage-oncall", keys["bob"]) + line("cid", keys["cid"]))
    return path


def refused(text: str, signature: str, allowed: Path, **how: str) -> str:
    with pytest.raises(Refused) as why:
        signer_of(text, signature, allowed, **how)
    return str(why.value)


def test_the_person_is_the_first_name_of_the_key(keys: dict[str, Path], allowed: Path) -> None:
    known = signer_of(TEXT, sign(TEXT, keys["bob"]), allowed)
    assert known == Signer("bob", ("storage-oncall",), known.key)
    assert known.key.startswith("SHA256:")
    assert known.names == ("bob", "storage-oncall")
    assert signer_of(TEXT, signed_for(TEXT, keys["cid"]), allowed).name == "cid"


def test_a_key_that_nobody_listed_is_nobody(keys: dict[str, Path], allowed: Path) -> None:
    why = refused(TEXT, sign(TEXT, keys["eve"]), allowed)
    assert "by nobody whom the worker knows now" in why
    assert str(allowed) in why


@pytest.mark.parametrize("other", ["", TEXT + "\n", TEXT.replace("sha256:1", "sha256:2")])
def test_a_signature_is_for_one_text(other: str, keys: dict[str, Path], allowed: Path) -> None:
    assert "not over this text" in refused(other, sign(TEXT, keys["bob"]), allowed)


def test_a_signature_for_something_else_is_none(keys: dict[str, Path], allowed: Path) -> None:
    why = refused(TEXT, signed_for(TEXT, keys["bob"], "git"), allowed)
    assert "namespace does not match" in why


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ('valid-before="20200101"', "has expired"),
        ('valid-after="20990101"', "not yet valid"),
        ('namespaces="git"', "not permitted for use in signature namespace"),
    ],
)
def test_a_key_counts_while_and_for_what_it_is_allowed(
    option: str, words: str, keys: dict[str, Path], allowed: Path
) -> None:
    allowed.write_text(line("bob", keys["bob"], option))
    assert words in refused(TEXT, sign(TEXT, keys["bob"]), allowed)


def test_one_key_is_one_person_whatever_else_it_is_called(
    keys: dict[str, Path], allowed: Path
) -> None:
    allowed.write_text(allowed.read_text() + line("cid", keys["bob"]))
    assert signer_of(TEXT, sign(TEXT, keys["bob"]), allowed).name == "bob"


@pytest.mark.parametrize("names", ["*", "*@example.com", "!bob,*", "bob,*"])
def test_a_key_for_anybody_is_nobodys(names: str, keys: dict[str, Path], allowed: Path) -> None:
    allowed.write_text(line(names, keys["bob"]))
    assert "which may be anybody" in refused(TEXT, sign(TEXT, keys["bob"]), allowed)


@pytest.mark.parametrize("signature", ["", "garbage", "-----BEGIN SSH SIGNATURE-----\nAAAA\n"])
def test_what_is_no_signature_is_refused(signature: str, allowed: Path) -> None:
    assert "by nobody" in refused(TEXT, signature, allowed)


def test_a_flood_is_refused_before_it_is_read(allowed: Path) -> None:
    assert "no signature: it has more" in refused(TEXT, "x" * (MOST_SIGNATURE + 1), allowed)


def test_without_a_file_of_signers_nobody_is_known(keys: dict[str, Path], tmp_path: Path) -> None:
    why = refused(TEXT, sign(TEXT, keys["bob"]), tmp_path / "none")
    assert "no signature can be checked" in why
    assert "GUARDRAIL_ALLOWED_SIGNERS" in why
    assert "cannot be read" in refused(TEXT, sign(TEXT, keys["bob"]), tmp_path)


def test_an_empty_file_of_signers_knows_nobody(keys: dict[str, Path], allowed: Path) -> None:
    allowed.write_text("")
    assert "by nobody" in refused(TEXT, sign(TEXT, keys["bob"]), allowed)


def test_a_missing_program_is_named_and_nothing_passes(
    keys: dict[str, Path], allowed: Path, tmp_path: Path
) -> None:
    signature = sign(TEXT, keys["bob"])
    nowhere = str(tmp_path / "ssh-keygen")
    assert "install OpenSSH" in refused(TEXT, signature, allowed, program=nowhere)
    with pytest.raises(Refused, match="is not there"):
        sign(TEXT, keys["bob"], program=nowhere)


@pytest.mark.parametrize("lines", ["exit 0", "echo bob", "exit 1"])
def test_a_program_that_only_says_yes_is_not_believed(
    lines: str, keys: dict[str, Path], allowed: Path, tmp_path: Path
) -> None:
    signature = sign(TEXT, keys["bob"])
    other = tmp_path / "yes"
    other.write_text(f"#!/bin/sh\n{lines}\n")
    other.chmod(0o755)
    refused(TEXT, signature, allowed, program=str(other))


def test_signing_says_why_it_cannot(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"no-such-key does not sign: .*No such file"):
        sign(TEXT, tmp_path / "no-such-key")
