"""Is a `Reminder` read whole, and is what is wrong in one said where it stands?"""

import json
from datetime import date

import jsonschema
import pytest
from ruamel.yaml import YAML

from guardrail.errors import InvalidFile
from guardrail.files import parse
from guardrail.files.schema import schema
from guardrail.model.gate import Bound
from guardrail.model.occasion import Occasion, Override, WorkingDay
from guardrail.model.reminder import Evidence, Lead, People, Task, Verify

WHOLE = """\
apiVersion: guardrail/v1
kind: Reminder
metadata: {name: transit-gateway, description: before everybody is back}
spec:
  prescale: transit gateway tgw-main, to 50 Gbit/s
  occasion:
    timezone: America/Los_Angeles
    at: "06:00"
    lasts: 5d
    workingDay: {number: 1, after: new-year, region: US}
    holidays:
      - {day: 2027-01-05, is: workday, reason: inventory}
      - {day: 2027-01-06, is: holiday}
  leads: {ticket: [14d, 30d], quota: [14d, 3d]}
  people: {owner: ann, deputy: bob, channel: storage-oncall, after: 2h}
  snooze: {most: 2d, times: 1}
  steps:
    - {name: ask, title: ask for it, request: ticket, evidence: {ticket: "CASE-[0-9]+"}}
    - name: quota
      title: see the quota
      request: quota
      evidence: {quota: {query: tgw_quota_gbps, pass: {above: 49}}}
    - {name: size, title: size it, request: quota, evidence: {actual: {query: tgw, target: 50}}}
  verify: {query: tgw_capacity_gbps, target: 50, every: 30m}
  source: prometheus
"""
DAY = 86_400.0


def test_every_key_is_read():
    found = parse(WHOLE, "r.yaml").reminder()
    overrides = (
        Override(date(2027, 1, 5), working=True, reason="inventory"),
        Override(date(2027, 1, 6), working=False),
    )
    assert found.occasion == Occasion(
        "America/Los_Angeles",
        360,
        5 * DAY,
        working_day=WorkingDay("US", 1),
        overrides=overrides,
    )
    assert found.leads == (
        Lead("ticket", 30 * DAY),
        Lead("quota", 14 * DAY),
        Lead("ticket", 14 * DAY),
        Lead("quota", 3 * DAY),
    )
    assert found.people == People("ann", "bob", "storage-oncall", 7200.0, 2 * DAY, 1)
    assert found.tasks == (
        Task("ask", "ask for it", "ticket", Evidence("ticket", pattern="CASE-[0-9]+")),
        Task(
            "quota",
            "see the quota",
            "quota",
            Evidence("quota", query="tgw_quota_gbps", bound=Bound(above=49)),
        ),
        Task("size", "size it", "quota", Evidence("target", query="tgw", target=50)),
    )
    assert found.verify == Verify(Evidence("target", query="tgw_capacity_gbps", target=50), 1800.0)
    assert (found.source, found.what[:7], found.digest[:7]) == ("prometheus", "transit", "sha256:")
    assert [name for name, _ in found.reads] == ["quota", "size", "verify"]


def test_what_is_left_out_has_its_default():
    text = WHOLE.replace(", after: 2h", "").replace("    lasts: 5d\n", "")
    text = text.replace("  snooze: {most: 2d, times: 1}\n", "").replace('    at: "06:00"\n', "")
    found = parse(text, "r.yaml").reminder()
    assert (found.people.after, found.people.snooze_most, found.people.snooze_times) == (
        14_400.0,
        3 * DAY,
        3,
    )
    assert (found.occasion.lasts, found.occasion.minute) == (DAY, 0)


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("{before: christmas, region: GB-ENG}", WorkingDay("GB-ENG", -1, 12, 25)),
        ('{number: 2, after: "07-04", region: US}', WorkingDay("US", 2, 7, 4)),
        ("{on: {holiday: Labor Day}, region: US}", WorkingDay("US", 0, holiday="Labor Day")),
        ('{after: "02-29", region: JP}', WorkingDay("JP", 1, 2, 29)),
    ],
)
def test_a_working_day_is_counted_from_a_named_day(written, rule):
    text = WHOLE.replace("{number: 1, after: new-year, region: US}", written)
    assert parse(text, "r.yaml").reminder().occasion.working_day == rule


@pytest.mark.parametrize(
    ("instead", "occasion"),
    [
        ("date: 2028-02-29", Occasion("America/Los_Angeles", 360, DAY, on=date(2028, 2, 29))),
        ('cron: "0 6 1 * *"', Occasion("America/Los_Angeles", 0, DAY, cron="0 6 1 * *")),
    ],
)
def test_an_occasion_is_a_date_or_a_cron_line(instead, occasion):
    first, rest = WHOLE.split("    lasts: 5d\n")
    text = first + "    " + instead + "\n" + rest[rest.index("  leads:") :]
    if "cron" in instead:
        text = text.replace('    at: "06:00"\n', "")
    assert parse(text, "r.yaml").reminder().occasion == occasion


MALFORMED = [
    ("prescale:", "prescal:", "5:3", ["`prescal`", "did you mean `prescale`?"]),
    ("America/Los_Angeles", "America/Los_Angelos", "7:15", ["no time zone", "Los_Angeles"]),
    ("region: US", "region: UK", "10:54", ["`UK` is no region", "such as US"]),
    ("region: US", "region: GB-SCO", "10:54", ["no part of GB", "`GB-ENG`, `GB-NIR`, `GB-SCT`"]),
    ("after: new-year", "after: newyear", "10:36", ["`new-year`, `christmas`", "12-25"]),
    ("after: new-year", 'after: "02-30"', "10:36", ["there is no day 02-30"]),
    ("after: new-year, ", "", "10:17", ["exactly one of `after`, `before`, `on`"]),
    ("number: 1", "number: 0", "10:26", ["at least 1", "write `on`"]),
    ("    holidays:", "    date: 2027-01-04\n    holidays:", "7:5", ["exactly one of `date`"]),
    ("2027-01-06", "2027-01-05", "13:15", ["listed twice"]),
    ("2027-01-06", "2027-02-30", "13:15", ["there is no day 2027-02-30"]),
    ("is: holiday", "is: free", "13:31", ["`free` is not known", "`holiday`, `workday`"]),
    ("quota: [14d, 3d]", "quotas: [3d]", "21:16", ["`quota` has no lead times", "`quotas`"]),
    ("quota: [14d, 3d]", "quota: []", "14:38", ["at least 1 is needed in this list"]),
    ("quota: [14d, 3d]", "quota: [3d], dns: [1d]", "14:49", ["no step has a request of type"]),
    ("owner: ann, ", "", "15:3", ["`owner` is missing"]),
    ("name: quota", "name: ask", "19:13", ["`ask` is listed twice"]),
    ("name: quota", "name: verify", "19:13", ["is the name of the whole"]),
    ('"CASE-[0-9]+"', '".*"', "18:74", ["an empty ticket would fit"]),
    ('"CASE-[0-9]+"', '"CASE-["', "18:74", ["no regular expression"]),
    ("evidence: {ticket:", "evidence: {tickets:", "18:66", ["`tickets`", "did you mean `ticket`?"]),
    ("pass: {above: 49}", "pass: {}", "22:55", ["exactly one of `below`"]),
    ("target: 50, every", "target: lots, every", "24:46", ["a number is needed, found `lots`"]),
    ("query: tgw_capacity_gbps", "query: 'tgw[5m]'", "24:19", ["one number at one time"]),
]


@pytest.mark.parametrize(("old", "new", "place", "said"), MALFORMED, ids=lambda v: str(v)[:30])
def test_what_is_wrong_is_said_where_it_stands(old, new, place, said):
    assert old in WHOLE
    with pytest.raises(InvalidFile) as refused:
        parse(WHOLE.replace(old, new, 1), "r.yaml")
    told = str(refused.value)
    assert all(each in told for each in said), told
    assert f"r.yaml:{place}: " in told


def test_cron_says_the_time_itself():
    text = WHOLE.replace("workingDay: {number: 1, after: new-year, region: US}", 'cron: "0 6 * *"')
    with pytest.raises(InvalidFile, match="five fields"):
        parse(text, "r.yaml")
    with pytest.raises(InvalidFile, match="drop `at`"):
        parse(text.replace("0 6 * *", "0 6 * * *"), "r.yaml")


def test_it_fits_its_schema_and_a_wrong_word_does_not():
    validator = jsonschema.Draft202012Validator(schema("Reminder"))
    plain = YAML(typ="safe").load(WHOLE.replace("2027-01-0", "!!str 2027-01-0"))
    plain = json.loads(json.dumps(plain))
    validator.validate(plain)
    plain["spec"]["occasion"]["workingDay"]["after"] = "newyear"
    assert not validator.is_valid(plain)
