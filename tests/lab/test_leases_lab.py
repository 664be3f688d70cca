"""Two rollouts over the caches of one lab: one at a time, in order, and the urgent first."""

from pathlib import Path

import pytest
from lab.engine_rig import Engine, begun, report, until
from lab.rig import Lab

from guardrail.model.messages import Status

pytestmark = [pytest.mark.lab, pytest.mark.second]

SLOW, HOSTS, OTHERS = "^cache-0(0[1-9]|1[0-9])$", 19, "^cache-02[0-2]$"
"""Nineteen hosts one second apart (commands take seconds on a busy machine), and three others."""


def start_urgent(engine: Engine, hosts: str) -> str:
    """A rollout that says it is urgent."""
    name, file = engine.files("usual", hosts, stages="100%")
    text = Path(file).read_text()
    Path(file).write_text(f"{text.rstrip()}\n  priority: urgent\n")
    started = engine("rollout", "start", file)
    assert started.code == 0, started.text
    return name


def changed(status: Status) -> tuple[str, int]:
    return status.phase, status.changed


def test_a_second_rollout_on_the_caches_waits_and_names_the_first(
    engine: Engine, fresh_lab: Lab
) -> None:
    lab = fresh_lab
    one = engine.start("paced", SLOW, stages="100%")
    engine.until_begun(one, 2)
    two = engine.start("usual", OTHERS, stages="100%")
    assert f"memcached is held by {one} (" in engine.until_told(two, "hold lease: ")
    listed = engine("lease", "list")
    assert f"memcached: {one} (" in listed.text
    assert f"{two} (" in listed.text.split("token")[1]
    assert changed(engine.until_ended(one)) == ("completed", HOSTS)
    assert changed(engine.until_ended(two)) == ("completed", 3)
    last, first = begun(lab, one)[-1].at, begun(lab, two)[0].at
    report(f"the second begins {first - last:.1f} s after the first's last host (its bake is 3 s)")
    assert first > last + 3
    until(lambda: "Nobody holds a lease" in engine("lease", "list").text, "both were given back")


def test_an_urgent_one_makes_the_first_yield_and_it_goes_on_after(
    engine: Engine, fresh_lab: Lab
) -> None:
    lab = fresh_lab
    one = engine.start("paced", SLOW, stages="100%")
    engine.until_begun(one, 2)
    urgent = start_urgent(engine, OTHERS)
    assert f"{urgent} is urgent (" in engine.until_told(one, "hold yield: ")
    assert changed(engine.until_ended(urgent)) == ("completed", 3)
    assert changed(engine.until_ended(one)) == ("completed", HOSTS)
    theirs = [begin.at for begin in begun(lab, urgent)]
    ours = [begin.at for begin in begun(lab, one)]
    assert not [at for at in ours if theirs[0] <= at <= theirs[-1] + 3]
    later = [at for at in ours if at > theirs[-1]]
    assert later, "the first had hosts left when it yielded"
    report(f"the first goes on {later[0] - theirs[-1]:.1f} s after the urgent one's last host")
