"""The rollout of 2022-02-22 under the shipped policies: what is said before the first host?

A quarter of the fleet at a time, at the daily peak: the plan is made of the lab's real hosts with
the documents in policies/, of which only the hours are moved to where the test needs them, and a
change that restarts the agent as its configuration says. And by whom: by the engineer who does not
know that Consul touches memcached, whose own folder has no policy on that.
"""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lab.engine_rig import EXAMPLES, HERE, Ended, Engine, begun, copied, engine_on, report
from lab.rig import Lab

from guardrail.edges.compose import store_of
from guardrail.files.planfile import load_plan
from guardrail.model.calendar import ClosedBy
from guardrail.model.plan import Plan

pytestmark = pytest.mark.lab

POLICIES = EXAMPLES.parent / "policies"
QUARTERS = "25%, 50%, 75%, 100%"
SLOWLY = f"10%, {QUARTERS}"  # cache-critical asks for an approval at 10 %


@pytest.fixture(scope="module")
def shipped(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped policies and gates for this lab's addresses, with the lab's changes."""
    source = copied(lab, POLICIES, tmp_path_factory.mktemp("shipped"))
    shutil.rmtree(source / "changes")
    shutil.copy(HERE / "source" / "changes.yaml", source)
    return source


def peak_at(source: Path, begins: datetime) -> None:
    """Move the daily peak to two hours from then, in UTC."""
    path = source / "cache-critical.yaml"
    hours = {"from": begins, "to": begins + timedelta(hours=2)}
    text = re.sub(r"timezone: .*", "timezone: UTC", path.read_text())
    text = re.sub(r"days: .*", "days: mon-sun", text)
    for word, moment in hours.items():
        text = re.sub(rf'{word}: "\d\d:\d\d"', f'{word}: "{moment:%H:%M}"', text)
    path.write_text(text)


def test_a_quarter_at_a_time_is_cut_small_and_refused_in_the_peak(
    engine: Engine, fresh_lab: Lab, shipped: Path
) -> None:
    _, file = engine.files("cache", "^cache-", stages=QUARTERS, change="default-leave")
    peak_at(shipped, datetime.now(UTC) - timedelta(hours=1))
    refused = engine("plan", file, GUARDRAIL_SOURCE=str(shipped))
    assert refused.code == 1, refused.text
    assert "nobody begins in the daily peak" in refused.text
    assert "deregister" in refused.text, "what the restart does to the cache is said as well"
    planned = engine("plan", file, "--json", GUARDRAIL_SOURCE=str(shipped))
    waves = [wave["end"] - wave["begin"] for wave in json.loads(planned.out)["waves"]]
    assert sum(waves) == 30
    assert max(waves) <= 3, "10 % of the tier, whatever the stages ask for"
    report(f"{len(waves)} waves of at most {max(waves)} hosts; {refused.text}")


def test_after_the_peak_it_may_begin_one_host_at_a_time(
    engine: Engine, fresh_lab: Lab, shipped: Path
) -> None:
    _, file = engine.files("cache", "^cache-", stages=SLOWLY, change="default-leave")
    peak_at(shipped, datetime.now(UTC) + timedelta(hours=6))
    planned = engine("plan", file, GUARDRAIL_SOURCE=str(shipped))
    assert planned.code == 0, planned.text
    assert "nobody begins in the daily peak" not in planned.text


# ---------------------------------------------------------------- the caller's own files

CRITICAL = "cache-critical.yaml"

LOOSE = """\
apiVersion: guardrail/v1
kind: Policy
metadata: {name: in-a-hurry, owners: [ann]}
spec:
  match: {roles: [memcached]}
  limits:
    unavailable: 100%
    unavailablePerDomain: 100%
    domainsAtOnce: 3
    failures: {hosts: 30}
    wave: 100%
    pace: {between: 0s}
  bake: {for: 0s}
  recover: {by: evidence, for: 1s}
  rollback: {when: auto}
  windows:
    timezone: UTC
    allow: [{from: "00:00", to: "12:00"}, {from: "12:00", to: "00:00"}]
"""


@pytest.fixture(scope="module")
def guarded(lab: Lab, shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A worker whose source is the shipped policies."""
    with engine_on(lab, tmp_path_factory.mktemp("guarded"), shipped) as running:
        yield running


@pytest.fixture
def without(guarded: Engine, tmp_path: Path) -> str:
    """The caller's own source folder: the worker's as it is, but for the one file."""
    own = tmp_path / "own"
    shutil.copytree(guarded.source, own)
    (own / CRITICAL).unlink()
    return str(own)


def started(engine: Engine, lab: Lab, *more: str, **environment: str) -> Plan:
    """The plan that the worker made of a start; nothing of it is begun: an approval is wanted."""
    name, file = engine.files("cache", "^cache-", stages=SLOWLY, change="default-leave")
    said = engine("rollout", "start", file, *more, "--json", **environment)
    assert said.code == 0, said.text
    engine.until_held(name, "approval:start")
    plan = load_plan(store_of(f"file://{engine.folder}/state/plans"), engine.status(name).plan)
    assert engine("rollout", "abort", name, "--reason", "only its plan was wanted").code == 0
    engine.until_ended(name)
    assert begun(lab, name) == []
    return plan


def refusal(engine: Engine, *more: str, **environment: str) -> str:
    """What a start in the peak was told, without its name."""
    name, file = engine.files("cache", "^cache-", stages=QUARTERS, change="default-leave")
    refused: Ended = engine("rollout", "start", file, *more, **environment)
    assert refused.code == 1, refused.text
    assert begun(engine.lab, name) == []
    return refused.text.replace(name, "NAME")


def untimed(plan: Plan) -> Plan:
    """All of a plan but its name, and what is another one each time it is made."""
    return replace(
        plan, rollout="", created_at=0.0, seconds_expected=0.0, seconds_closed=0.0, warnings=(),
        gates=tuple(replace(rule, first_within=0.0) for rule in plan.gates), calendar=None,
    )  # fmt: skip


def said_where(plan: Plan) -> dict[str, tuple[float, str, int]]:
    """Each limit's value, and the file and line that it is from."""
    return {x.name: (x.value, x.origin.file, x.origin.line) for x in plan.limits}


def closing(plan: Plan) -> tuple[ClosedBy, ...]:
    assert plan.calendar is not None
    return plan.calendar.rules


def test_a_caller_without_cache_critical_gets_the_same_plan(
    guarded: Engine, fresh_lab: Lab, without: str
) -> None:
    peak_at(guarded.source, datetime.now(UTC) + timedelta(hours=6))
    with_it = started(guarded, fresh_lab)
    left_out = started(guarded, fresh_lab, GUARDRAIL_SOURCE=without)
    assert untimed(left_out) == untimed(with_it)
    assert closing(left_out) == closing(with_it)
    assert max(wave.end - wave.begin for wave in left_out.waves) <= 3, "10 % of the tier"

    file = guarded.source / CRITICAL
    lines = file.read_text().splitlines()
    words = {
        "pace.between": (30, "pace: {between: 30s}"),
        "churn": (6, "churn: {departures: 6, per: 10m}"),
        "evidence.grace": (10, "evidence: {maxAge: 3 scrapes, grace: 10s}"),
    }
    limits = said_where(left_out)
    for name, (value, written) in words.items():
        line = next(n for n, text in enumerate(lines, 1) if text.strip() == written)
        assert limits[name] == (value, str(file), line)
    tiers = [limit for limit in left_out.limits if limit.origin.file == str(file)]
    report(f"{len(tiers)} limits are from the file that the caller has not")
    assert str(file) in [rule.origin.file for rule in closing(left_out)]


def test_a_caller_without_cache_critical_is_refused_in_the_peak_all_the_same(
    guarded: Engine, fresh_lab: Lab, without: str
) -> None:
    peak_at(guarded.source, datetime.now(UTC) - timedelta(hours=1))
    told = refusal(guarded, GUARDRAIL_SOURCE=without)
    assert told == refusal(guarded)
    assert "nobody begins in the daily peak" in told


def test_no_policy_beside_the_rollout_loosens_what_the_worker_has(
    guarded: Engine, fresh_lab: Lab, without: str, tmp_path: Path
) -> None:
    loose, mine = tmp_path / "loose.yaml", tmp_path / "mine.yaml"
    loose.write_text(LOOSE)
    peak_at(guarded.source, datetime.now(UTC) + timedelta(hours=6))
    alone = started(guarded, fresh_lab)
    added = started(guarded, fresh_lab, str(loose), GUARDRAIL_SOURCE=without)
    assert ("in-a-hurry" in dict(added.policies), said_where(added)) == (True, said_where(alone))
    for what in ("waves", "caps", "gates", "approvals", "bake_for", "rollback_when", "leases"):
        assert getattr(untimed(added), what) == getattr(untimed(alone), what), what
    assert set(closing(alone)) <= set(closing(added))

    text = (guarded.source / CRITICAL).read_text()
    mine.write_text(text.replace("unavailable: 1\n", "unavailable: 30\n"))
    edited = refusal(guarded, str(mine), GUARDRAIL_SOURCE=without)
    assert f"policy cache-critical ({mine}) is not the one that the worker's source has" in edited

    mine.write_text(LOOSE.replace("in-a-hurry", "careful").replace("0s}", "90s}"))
    slower = started(guarded, fresh_lab, str(mine))
    assert said_where(slower)["pace.between"][:2] == (90, str(mine)), "but more careful it may be"

    peak_at(guarded.source, datetime.now(UTC) - timedelta(hours=1))
    told = refusal(guarded, str(loose), GUARDRAIL_SOURCE=without)
    assert "nobody begins in the daily peak" in told
