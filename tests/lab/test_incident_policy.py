"""The rollout of 2022-02-22 under the shipped policies: what is said before the first host?

A quarter of the fleet at a time, at the daily peak: the plan is made of the lab's real hosts with
the documents in policies/, of which only the hours are moved to where the test needs them, and a
change that restarts the agent as its configuration says.
"""

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lab.engine_rig import EXAMPLES, HERE, Engine, copied, report
from lab.rig import Lab

pytestmark = pytest.mark.lab

POLICIES = EXAMPLES.parent / "policies"
QUARTERS = "25%, 50%, 75%, 100%"


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
    stages = f"10%, {QUARTERS}"  # cache-critical asks for an approval at 10 %
    _, file = engine.files("cache", "^cache-", stages=stages, change="default-leave")
    peak_at(shipped, datetime.now(UTC) + timedelta(hours=6))
    planned = engine("plan", file, GUARDRAIL_SOURCE=str(shipped))
    assert planned.code == 0, planned.text
    assert "nobody begins in the daily peak" not in planned.text
