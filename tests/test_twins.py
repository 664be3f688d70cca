"""The twins behave as their ports say, and `drive` as its script says."""

import pytest

from guardrail.errors import Refused
from guardrail.model.common import Origin
from guardrail.model.fleet import Fleet, Host, HostList
from guardrail.model.gate import Age, Reading
from guardrail.model.operation import BeginHost
from guardrail.model.plan import Caps, Course, GateRule, Wave
from guardrail.ports import StepRequest, Token, Unreachable
from guardrail.twins import Script, TwinHosts, TwinInventory, TwinMetrics, TwinStore, Work, drive

RULE = GateRule("g", "safety", 10.0, "person", 20.0, 15.0, Origin("policy x", "x.yaml", 1))


def plan(hosts=2, away=1):
    return Course("d", "ann", (Wave("100%", 0, hosts),), (0,) * hosts, (0,),
                  Caps(away, away, 1, 0), (RULE,), (), 30.0)  # fmt: skip


def works(**fields):
    return Script(lambda *_: Work(**fields))


# ---------------------------------------------------------------- drive


def test_a_host_begins_when_it_is_ready_and_has_its_go():
    run = drive(plan(1), works(ready=2.0, go=0.5, takes=4.0))
    assert [(begun.at, begun.index, begun.turn) for begun in run.begun] == [(3.5, 0, 1)]
    assert run.state.finished_at == 37.5


def test_a_go_that_comes_too_late_begins_nothing():
    run = drive(plan(1), works(go=1.1), until=20.0)
    assert run.begun == []
    assert {act.kind for moment in run.moments for act in moment.asked} == {"begin_host"}


@pytest.mark.parametrize("outcome", ["not_begun", "blocked", "credentials"])
def test_before_the_point_of_no_return_nothing_begins(outcome):
    assert drive(plan(1), works(outcome=outcome), until=20.0).begun == []


def test_an_echo_is_the_same_answer_again():
    run = drive(plan(1), works(takes=2.0, echoes=(3.0,)))
    turns = [m.event.turn for m in run.moments if m.event.kind == "host_answered"]
    assert turns == [1, 1]
    assert run.state.changed == 1


def test_a_host_is_asked_for_its_work_with_its_turn():
    seen: list[BeginHost] = []
    drive(plan(2), Script(lambda begin, _: seen.append(begin) or Work()))
    assert [(begin.index, begin.turn) for begin in seen] == [(0, 1), (1, 2)]


def test_time_stops_where_it_is_told_to():
    run = drive(plan(3), Script(), until=8.0)
    assert run.now <= 8.0
    assert not run.state.finished


# ---------------------------------------------------------------- twins of the ports

HOST = Host("twin", "a", "127.0.0.1", "z")


def request(turn, attempt=1, version="2"):
    token = Token(0, turn, attempt)
    return StepRequest("op", "agent", "forward", token, (("switch", version),), 10.0)


async def yes():
    return True


async def no():
    return False


async def test_an_empty_or_filtered_inventory_is_refused():
    fleet = Fleet("cache", HostList((HOST,)))
    with pytest.raises(Refused):
        await TwinInventory(()).hosts(fleet)
    with pytest.raises(Refused):
        await TwinInventory((HOST,), filtered=True).hosts(fleet)
    assert await TwinInventory((HOST,)).hosts(fleet) == (HOST,)


async def test_metrics_that_are_not_there_are_no_data_and_old_ones_are_stale():
    metrics = TwinMetrics({"q": Reading(1.0, None, 100.0, 90.0)})
    assert (await metrics.read("other")).kind == "no_data"
    assert (await metrics.read("q", Age(seconds=5.0))).kind == "stale"
    assert (await metrics.read("q", Age(scrapes=11.0))).value == 1.0


def test_a_store_returns_what_was_put_by_its_digest():
    store = TwinStore()
    digest = store.put(b"plan")
    assert store.get(digest) == b"plan"
    with pytest.raises(Refused):
        store.get("sha256:0")


async def test_a_silent_host_is_unreachable():
    hosts = TwinHosts({"a": "1"}, silent={"a"})
    with pytest.raises(Unreachable):
        await hosts.run(HOST, ("true",), limit=1.0)


async def test_steps_take_effect_once_a_turn():
    hosts = TwinHosts({"a": "1"})
    refused = await hosts.apply(HOST, request(1), no)
    assert (refused.kind, hosts.versions) == ("not_begun", {"a": "1"})
    for attempt in (1, 2):
        assert (await hosts.apply(HOST, request(1, attempt), yes)).kind == "done"
    assert (len(hosts.log), hosts.versions) == (1, {"a": "2"})
    assert (await hosts.apply(HOST, request(2, version="3"), yes)).kind == "done"
    assert (await hosts.apply(HOST, request(1), yes)).kind == "refused"
    assert hosts.versions == {"a": "3"}
