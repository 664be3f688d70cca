"""What the watch tells of a catalog: each departure once, whatever is lost on the way."""

import asyncio
from contextlib import suppress

from guardrail.errors import Refused, Unanswered
from guardrail.model.budget import Listed, Listing
from guardrail.model.messages import WatchTask
from guardrail.twins import TwinListings
from guardrail_workflows.fleet_watch import TOLD_AGAIN, FleetWatch

NAMES = ("a", "b", "c")
SILENT = Unanswered("Consul", "http://x", "connection refused")


def listing(index, *names, failing=(), created=1):
    kept = {name: Listed(created) for name in names}
    return Listing(index, kept | {name: Listed(created, ("down",)) for name in failing})


async def watched(*answers, lost=0, index=0, down="0", clock=lambda: 50.0):
    """What an operation is told; the first `lost` reports do not arrive."""
    script, told, tries = TwinListings(list(answers)), [], [0]

    async def tell(report):
        tries[0] += 1
        if tries[0] <= lost:
            raise ConnectionError("the server is away")
        told.append(report)

    task = WatchTask("op", "sha256:x", 3, index=index, down=down)
    watch = FleetWatch(task, NAMES, script, tell, clock=clock, pause=0.0, again=0.0)
    running = asyncio.create_task(watch.run())
    await asyncio.wait_for(script.over.wait(), 5)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return told


def names(report):
    return [(one.host, one.index) for one in report.left]


async def test_the_first_listing_is_told_and_then_only_what_changes():
    told = await watched(listing(7, *NAMES), listing(8, *NAMES), listing(9, "a", "c"))
    assert [(report.turn, report.index, names(report), report.down) for report in told] == [
        (3, 7, [], "0"),
        (3, 9, [("b", 1)], "2"),
    ]


async def test_a_node_of_no_plan_counts_without_an_index():
    told = await watched(listing(7, *NAMES, "spare"), listing(8, *NAMES))
    assert names(told[1]) == [("spare", -1)]
    assert told[1].down == "0"


async def test_a_departure_that_could_not_be_told_is_told_with_the_next_look():
    told = await watched(listing(7, *NAMES), listing(8, "a", "b"), listing(9, *NAMES), lost=2)
    assert [names(report) for report in told] == [[("c", 2)]]


async def test_what_was_told_is_not_told_twice():
    told = await watched(listing(7, *NAMES), listing(8, "a", "b"), listing(9, "b"))
    assert [names(report) for report in told] == [[], [("c", 2)], [("a", 0)]]


async def test_silence_is_told_once_by_name_and_its_end_too():
    told = await watched(listing(7, *NAMES), SILENT, SILENT, listing(8, *NAMES))
    assert [report.problem for report in told] == ["", str(SILENT), ""]


async def test_a_catalog_that_hides_a_part_is_a_problem():
    told = await watched(Refused("hidden by ACLs"))
    assert [report.problem for report in told] == ["hidden by ACLs"]


async def test_who_left_while_the_catalog_was_silent_is_told_after_it():
    told = await watched(listing(7, *NAMES), SILENT, listing(8, "a", "b"))
    assert names(told[-1]) == [("c", 2)]


async def test_hosts_that_turn_critical_and_back_are_told():
    told = await watched(
        listing(7, *NAMES), listing(8, "a", "b", failing=("c",)), listing(9, *NAMES)
    )
    assert [(report.down, names(report)) for report in told] == [("0", []), ("4", []), ("0", [])]


async def test_the_next_watch_goes_on_where_the_last_one_was():
    back = listing(30, "a", "b")
    told = await watched(Listing(30, back.nodes | {"c": Listed(25)}), index=20)
    assert names(told[0]) == [("c", 2)]
    told = await watched(back, index=20, down="4")
    assert names(told[0]) == []
    assert told[0].down == "4"


async def test_who_falls_is_named_with_what_the_catalog_says():
    told = await watched(listing(7, *NAMES), listing(8, "a", failing=("b",)))
    fallen = [(one.index, one.host, one.why) for one in told[1].fallen]
    assert fallen == [(1, "b", "down"), (2, "c", "not in the catalog")]


async def test_hosts_that_are_down_are_told_once_more_and_then_no_more():
    times = iter(range(0, 1000, 2))
    same = [listing(8, "a", "b") for _ in range(6)]
    told = await watched(listing(7, *NAMES), *same, clock=lambda: float(next(times)))
    assert [report.down for report in told] == ["0", "4", "4"]
    assert told[2].at - told[1].at >= TOLD_AGAIN
    assert told[2].fallen == (), "it fell once"
