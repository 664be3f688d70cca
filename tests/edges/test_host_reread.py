"""A changed host is read again: what is installed and what runs, and silence is no answer."""

import pytest

from guardrail.model.change import Change, RunProbe
from guardrail.model.fleet import Host
from guardrail.model.operation import HostFound
from guardrail.ports import BadCredentials, Unreachable
from guardrail_workflows.host_reread import MOST_WRONG, Reading, in_words

INSTALLED, RUNNING = RunProbe(("a",), "(.*)"), RunProbe(("b",), "(.*)")


class Eyes:
    """What is on hosts by name: (installed, running), or the errors that come first."""

    def __init__(self, there, errors=()):
        self.there, self.errors, self.asked = there, list(errors), 0

    async def installed(self, host, _change):
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.there[host.name][0]

    async def running(self, host, _change):
        return self.there[host.name][1]

    async def obtainable(self, host, change, version):
        raise AssertionError("nobody asks what can be had")


def hosts(*names):
    return [(n, Host("list", name, "127.0.0.1", "a", (), ())) for n, name in enumerate(names)]


def change(running=RUNNING):
    return Change("c", "a", "exec", INSTALLED, running, (), (("x",),), None, None, 60.0)


async def read(eyes, *names, running=RUNNING):
    told = []
    reading = Reading(change(running), "2", eyes)
    found = await reading.of(hosts(*names), lambda done, of: told.append((done, of)))
    assert len(told) == len(names)
    return found


async def test_a_host_at_its_version_is_nothing_to_tell():
    assert (await read(Eyes({"h": ("2", "2")}), "h")).wrong == ()


@pytest.mark.parametrize(
    ("installed", "running", "words", "away"),
    [
        ("1", "1", "at 1, and was brought to 2", False),
        ("1", "2", "running 2 with 1 installed, and was brought to 2", False),
        ("2", None, "not running (installed is 2), and was brought to 2", True),
        (None, "2", "running 2 with a version that cannot be told installed, and was brought to 2",
         False),
    ],
)  # fmt: skip
async def test_what_is_found_is_told(installed, running, words, away):
    found = await read(Eyes({"h": (installed, running)}), "h")
    assert found.wrong == (HostFound(0, "h", words, True, away),)
    assert in_words(installed, running, "2") == words


async def test_what_runs_is_not_asked_where_nothing_runs():
    assert (await read(Eyes({"h": ("2", "1")}), "h", running=INSTALLED)).wrong == ()


@pytest.mark.parametrize("error", [Unreachable("no route"), BadCredentials("who are you")])
async def test_a_host_is_asked_twice_before_it_is_silent(error):
    once = Eyes({"h": ("2", "2")}, [error])
    assert (await read(once, "h")).wrong == ()
    twice = Eyes({"h": ("2", "2")}, [error, error])
    (wrong,) = (await read(twice, "h")).wrong
    assert not wrong.answered
    assert str(error) in wrong.found
    assert twice.asked == 2


async def test_those_that_answered_come_first_and_the_list_is_bounded():
    names = [f"h{n}" for n in range(MOST_WRONG + 20)]
    there = dict.fromkeys(names, ("1", "1"))
    eyes = Eyes(there, [Unreachable("gone")] * 2)
    found = await read(eyes, *names)
    assert (found.read, len(found.wrong), found.more) == (MOST_WRONG + 20, MOST_WRONG, 20)
    assert all(one.answered for one in found.wrong[:50])
