"""What the watch tells of a ring: who took a slot, once, and who has shown to be warm since."""

import asyncio

from guardrail.model.budget import Listed, Listing, RingListed, RingSeen
from guardrail.model.messages import WatchTask
from guardrail_workflows.fleet_watch import STEADY, FleetWatch
from guardrail_workflows.ring_watch import RingWatch

NAMES = {"a": 0, "b": 1, "c": 2, "d": 3}
FULL = RingListed(("a", "b", "c"), ("d", "x"))


class Gates:
    """Who shows when to be warm: a node's event is set."""

    def __init__(self):
        self.asked, self.shown = [], {}

    async def __call__(self, node):
        self.asked.append(node)
        await self.shown.setdefault(node, asyncio.Event()).wait()


async def settle():
    for _ in range(3):
        await asyncio.sleep(0)


async def test_who_serves_at_first_has_taken_nothing():
    watch = RingWatch(NAMES, Gates())
    assert watch.take(FULL, ()) == RingSeen("7", (), 0, 2)


async def test_who_takes_a_slot_is_told_until_that_arrives_and_read_until_it_is_warm():
    gates = Gates()
    watch = RingWatch(NAMES, gates)
    watch.take(FULL, ())
    after = RingListed(("d", "b", "c"), ("x", "a"))
    first = watch.take(after, ("a",))
    assert (first.serving, first.taken, first.warm) == ("e", "8", "0")
    assert watch.take(after, ()).taken == "8", "nobody has said that it arrived"
    watch.told(first)
    assert watch.take(after, ()).taken == "0"
    await settle()
    gates.shown["d"].set()
    await settle()
    told = watch.take(after, ())
    assert (told.taken, told.warm) == ("0", "8")
    watch.told(told)
    assert watch.take(after, ()).warm == "0"
    watch.close()


async def test_who_left_and_has_its_slot_again_has_taken_it():
    watch = RingWatch(NAMES, Gates())
    watch.take(FULL, ())
    assert watch.take(FULL, ("b", "x")).taken == "2"
    watch.close()


async def test_a_node_of_no_plan_is_told_by_name_and_an_empty_slot_counted():
    watch = RingWatch(NAMES, Gates())
    watch.take(FULL, ())
    told = watch.take(RingListed(("x", "", "c"), ("a",)), ())
    assert (told.serving, told.others, told.empty) == ("4", ("x",), 1)
    assert (told.taken, told.taken_others) == ("0", ("x",))
    watch.close()


async def test_a_new_watch_goes_on_with_what_was_known():
    gates = Gates()
    known = RingSeen("b", (), taken="8")
    watch = RingWatch(NAMES, gates, known)
    told = watch.take(RingListed(("c", "b", "d"), ("a",)), ())
    await settle()
    assert told.taken == "4", "c took a slot while nobody looked"
    assert sorted(gates.asked) == ["c", "d"]
    watch.close()


async def test_who_loses_its_slot_is_read_no_more_and_a_gate_that_cannot_be_read_is_read_again():
    class Broken(Gates):
        async def __call__(self, node):
            self.asked.append(node)
            raise RuntimeError("the gate was changed")

    gates = Broken()
    watch = RingWatch(NAMES, gates)
    watch.take(FULL, ())
    after = RingListed(("d", "b", "c"), ("a",))
    watch.take(after, ())
    await settle()
    assert watch.take(after, ()).warm == "0"
    await settle()
    assert gates.asked == ["d", "d"]
    watch.take(FULL, ())
    assert "d" not in watch.waits
    watch.close()


class Still:
    """A watch of a fleet that has hosts that were down, at times of ours."""

    def __init__(self):
        self.at = 100.0
        self.watch = FleetWatch(
            WatchTask("op", "sha256:x", 3),
            ("a",),
            None,
            None,
            clock=lambda: self.at,
            was_down={"z": 1, "y": 1},
            domains=2,
        )

    def __call__(self, at, *serving, failing=()):
        self.at = at
        nodes = {name: Listed(1) for name in ("a", *serving)}
        nodes |= {name: Listed(1, ("memcached is critical",)) for name in failing}
        return self.watch._seen(Listing(7, nodes)).still


def test_a_host_that_was_down_is_back_once_it_has_served_for_a_while():
    still = Still()
    assert still(100.0) == (0, 2)
    assert still(101.0, "z") == (0, 2)
    assert still(101.0 + STEADY, "z") == (0, 1)
    assert still(130.0, "z", failing=("y",)) == (0, 1)
    assert still(131.0) == (0, 2)
    assert still(132.0, "z") == (0, 2), "it begins anew"


def test_where_none_was_down_nothing_is_told():
    watch = FleetWatch(WatchTask("op", "sha256:x", 3), ("a",), None, None)
    assert watch._seen(Listing(7, {"a": Listed(1)})).still is None
