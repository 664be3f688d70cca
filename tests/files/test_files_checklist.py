"""Is a `Checklist` read whole, and is what is wrong in one said where it stands?"""

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from guardrail.errors import InvalidFile
from guardrail.files import checklist as described
from guardrail.files import parse
from guardrail.files.schema import schema
from guardrail.model.checklist import Answers, Locked, Plain
from guardrail.model.gate import Age, Bound
from guardrail.model.occasion import Occasion, WorkingDay

WHOLE = (described.__doc__ or "").split("\n\n", 1)[1].split("\n\n")[0]
DAY = 86_400.0


def test_every_key_of_the_example_is_read() -> None:
    found = parse(WHOLE, "c.yaml").checklist()
    assert (found.cron, found.timezone) == ("0 9 * * mon-fri", "America/Los_Angeles")
    working = WorkingDay("US", 1)
    assert found.peak == Occasion("America/Los_Angeles", 360, 5 * DAY, working_day=working)
    assert found.tells == ("network-oncall",)
    files, database, lock, second = found.items
    room = Plain("min(process_max_fds - process_open_fds)", Bound(above=20_000))
    assert (files.asks, files.max_age, files.source) == (room, Age(scrapes=3), "prometheus")
    assert (database.asks, database.title) == ("database-margin", "the database has room")
    times = ("scale_down_lock_since", "scale_down_lock_until")
    assert lock.asks == Locked(*times, 7200.0, 21_600.0)
    up = Bound(above=0)
    assert second.asks == Answers("prometheus", "prometheus-b", "count(up == 1)", up)


def test_the_document_in_the_docs_is_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "season.md").read_text()
    text = page.split("```yaml\n")[1].split("```")[0]
    items = parse(text, "docs").checklist().items
    assert [each.name for each in items] == [
        "open-files",
        "database",
        "scale-down",
        "second-prometheus",
    ]


def test_the_schema_takes_the_example() -> None:
    data = YAML(typ="safe").load(WHOLE)
    jsonschema.validate(json.loads(json.dumps(data)), schema("Checklist"))
    shipped = Path(__file__).parents[2] / "policies" / "schema" / "checklist.json"
    assert json.loads(shipped.read_text()) == schema("Checklist")


HEAD = """\
apiVersion: guardrail/v1
kind: Checklist
metadata: {name: c}
spec:
  schedule: {cron: "0 9 * * *", timezone: UTC}
  items:
"""


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("{name: a, title: b}", "x.yaml:7:7: exactly one of `query`, `gate`, `locked`, `answers`"),
        ("{name: a, title: b, query: up}", "`query` and `pass` are given together"),
        ("{name: a, title: b, gate: g, pass: {above: 0}}", "`query` and `pass` are given together"),
        ("{name: a, title: b, gate: g, maxAge: 5s}", "x.yaml:7:44: the gate says that itself"),
        ("{name: a, title: b, query: 'up[', pass: {above: 0}}", "Prometheus would not take this"),
        (
            "{name: a, title: b, locked: {since: l, until: u, before: 1h, tail: 1h}}",
            "x.yaml:7:35: a lock is held against the `peak`",
        ),
        (
            "{name: a, title: b, answers: {first: p, second: p, query: up, pass: {above: 0}}}",
            "x.yaml:7:55: `p` is the first; name another Source",
        ),
        (
            "{name: a, title: b, source: p, answers: {first: p, second: q, query: up, pass: {}}}",
            "exactly one of `below`, `above`, `within`",
        ),
        (
            "{name: a, title: b, source: p, answers: {first: p, second: q, query: up, pass: UP}}",
            "`answers` names its sources itself",
        ),
        ("{name: a, title: b, gate: g}\n    - {name: a, title: b, gate: g}", "`a` is listed twice"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(item: str, said: str) -> None:
    with pytest.raises(InvalidFile) as refused:
        parse(f"{HEAD}    - {item.replace('UP', '{above: 0}')}\n", "x.yaml")
    assert said in str(refused.value)


def test_a_list_that_names_nobody_tells_all_that_want_to_hear_of_checks() -> None:
    text = HEAD + "    - {name: a, title: b, gate: g}\n"
    assert parse(text, "x.yaml").checklist().tells == ()
    with pytest.raises(InvalidFile, match=r"x\.yaml:5:10: at least 1 is needed in this list"):
        parse(text.replace("  schedule:", "  tells: []\n  schedule:"), "x.yaml")


def test_a_list_without_items_or_with_no_schedule_is_none() -> None:
    with pytest.raises(InvalidFile, match="at least 1 is needed in this list"):
        parse(HEAD.replace("items:", "items: []"), "x.yaml")
    with pytest.raises(InvalidFile, match="a cron line has five fields"):
        parse(HEAD.replace("0 9 * * *", "daily") + "    - {name: a, title: b, gate: g}", "x.yaml")
