"""Is a Channel read as written, and refused with its place where it is not right?"""

import pytest

from guardrail.errors import InvalidFile
from guardrail.files import parse
from guardrail.model.common import Secret
from guardrail.model.notice import KINDS, Channel

HEAD = "apiVersion: guardrail/v1\nkind: Channel\nmetadata: {name: duty}\nspec:\n"


def channel(spec: str) -> Channel:
    (found,) = parse(HEAD + spec, "/source/channels.yaml").channels
    return found


def test_as_short_as_can_be() -> None:
    assert channel("  address: {env: DUTY_URL}") == Channel("duty", Secret("env", "DUTY_URL"))
    assert channel("  address: {env: DUTY_URL}").tells == KINDS


def test_all_of_it() -> None:
    spec = (
        "  address: {file: duty.url}\n  tells: [hold, hold, reminder]\n  otherwise: mail\n"
        "  timeout: 5s\n  tries: 2\n  wait: 250ms"
    )
    secret = Secret("file", "/source/duty.url")
    assert channel(spec) == Channel("duty", secret, ("hold", "reminder"), "mail", 5.0, 2, 0.25)


@pytest.mark.parametrize(
    ("spec", "place", "words"),
    [
        ("  address: jsons://token@hooks.example/secret", "5:12", "not written into a document"),
        ("  address: {env: X}\n  adress: {env: X}", "6:3", "adress"),
        ("  address: {env: X}\n  tells: [holds]", "6:11", "hold"),
        ("  address: {env: X}\n  tells: []", "6:10", "1"),
        ("  address: {env: X}\n  tries: 11", "6:10", "10"),
        ("  address: {env: X}\n  timeout: 2m", "6:12", "at most 60s"),
        ("  address: {env: X}\n  timeout: 0s", "6:12", "above 0"),
        ("  tells: [hold]", "4:1", "address"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(spec: str, place: str, words: str) -> None:
    with pytest.raises(InvalidFile) as refused:
        channel(spec)
    told = str(refused.value)
    assert told.startswith(f"/source/channels.yaml:{place}: "), told
    assert words in told
    assert "token" not in told
    assert "hooks.example" not in told
