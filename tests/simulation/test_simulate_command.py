"""`guardrail simulate`: what it prints, and how it ends."""

import json

import pytest
from typer.testing import CliRunner

from guardrail.cli import app
from guardrail.errors import Refused
from guardrail.simulation.faults import FAULTS, planted

RUN = CliRunner()
ONE_TOO_MANY = next(fault for fault in FAULTS if fault.what == "one host too many")


def test_seeds_that_break_no_rule_end_with_their_count():
    done = RUN.invoke(app, ["simulate", "--seeds", "120", "--from", "7"])
    assert done.exit_code == 0
    assert "120 seeds from 7: " in done.stdout


def test_json_has_seeds_phases_and_no_broken_rule():
    done = RUN.invoke(app, ["simulate", "--seeds", "30", "--json"])
    said = json.loads(done.stdout)
    assert (said["seeds"], said["from"], said["broken"]) == (30, 0, [])
    assert sum(said["phases"].values()) == said["operations"]


def test_the_same_seeds_say_the_same():
    def told():
        said = json.loads(RUN.invoke(app, ["simulate", "--seeds", "40", "--json"]).stdout)
        return {k: v for k, v in said.items() if k not in ("tookSeconds", "seedsPerSecond")}

    assert told() == told()


@pytest.mark.parametrize("options", [["--seeds", "500"], ["--forever"]])
def test_a_broken_rule_ends_it_with_the_story_and_exit_code_1(options):
    with planted(ONE_TOO_MANY):
        done = RUN.invoke(app, ["simulate", *options])
    code = done.exception.exit_code if isinstance(done.exception, Refused) else done.exit_code
    assert code == 1
    assert "what happened:" in done.stdout
    assert "broken: " in done.stdout


def test_a_broken_rule_in_json_names_the_seed_and_tells_the_story():
    with planted(ONE_TOO_MANY):
        said = json.loads(RUN.invoke(app, ["simulate", "--seeds", "500", "--json"]).stdout)
    assert said["broken"][0]["rule"] in ("limits_hold", "rollback_obeys_limits")
    assert said["story"][0].startswith(f"seed {said['broken'][0]['seed']};")
