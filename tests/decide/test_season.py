"""Does a season hold each occasion, lead time, window and freeze once, and at its time?"""

from dataclasses import replace
from datetime import UTC, date, datetime

from guardrail.decide.season import longest_lead, season
from guardrail.model.calendar import DateRange, Window, Windows
from guardrail.model.freeze import Freeze
from guardrail.model.gate import Bound
from guardrail.model.occasion import Moment, Occasion
from guardrail.model.policy import Match, Policy
from guardrail.model.reminder import Evidence, Lead, People, Reminder, Task

DAY = 86_400.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


BEGIN, END = at("2026-10-01"), at("2027-03-01")
BACK = Moment(
    key="2027",
    begins_at=at("2027-01-04T14:00"),
    ends_at=at("2027-01-09T14:00"),
    offset=-480,
    words="first working day after New Year in US",
    timezone="America/Los_Angeles",
    known_by=("holidays 0.109",),
)
GATEWAY = Reminder(
    name="transit-gateway",
    what="tgw-main, to 50 Gbit/s",
    occasion=Occasion("America/Los_Angeles"),
    leads=(Lead("ticket", 30 * DAY), Lead("quota", 3 * DAY)),
    people=People("ann", "bob", "oncall"),
    tasks=(
        Task("ask", "ask the provider", "ticket", Evidence("ticket", "CASE-[0-9]+")),
        Task("see", "see the quota", "quota", Evidence("quota", query="q", bound=Bound(above=4))),
    ),
)


def test_lead_times_and_occasions_are_there_in_order() -> None:
    found = season(BEGIN, END, [(GATEWAY, (BACK,))], (), ()).entries
    assert [(each.uid, each.begins_at) for each in found] == [
        ("reminder/transit-gateway/2027/ticket/2592000@guardrail", at("2026-12-05T14:00")),
        ("reminder/transit-gateway/2027/quota/259200@guardrail", at("2027-01-01T14:00")),
        ("occasion/transit-gateway/2027@guardrail", at("2027-01-04T14:00")),
    ]
    first, _, last = found
    assert first.title == "transit-gateway: ticket, 30 d before"
    assert "step: ask the provider" in first.details
    assert "step: see the quota" not in first.details
    assert last.details == (
        "begins at 2027-01-04 06:00 UTC-08:00 (America/Los_Angeles)",
        "known by holidays 0.109",
        "prepared for by: transit-gateway",
    )


def test_an_occasion_that_reminders_share_is_one() -> None:
    other = replace(GATEWAY, name="database", leads=())
    found = season(BEGIN, END, [(GATEWAY, (BACK,)), (other, (BACK,))], (), ()).entries
    (one,) = [each for each in found if each.kind == "occasion"]
    assert (one.uid, one.details[-1]) == (
        "occasion/database/2027@guardrail",
        "prepared for by: database, transit-gateway",
    )


def test_a_name_stays_when_the_day_moves() -> None:
    moved = replace(BACK, begins_at=BACK.begins_at + DAY, ends_at=BACK.ends_at + DAY)
    names = [
        [each.uid for each in season(BEGIN, END, [(GATEWAY, (one,))], (), ()).entries]
        for one in (BACK, moved)
    ]
    assert names[0] == names[1]


def test_lead_times_of_a_later_occasion_are_in_and_it_is_not() -> None:
    assert longest_lead([GATEWAY, replace(GATEWAY, leads=())]) == 30 * DAY
    end = at("2026-12-31")
    found = season(BEGIN, end, [(GATEWAY, (BACK,))], (), ()).entries
    assert [each.kind for each in found] == ["reminder"]


def test_dated_windows_are_in_and_daily_ones_are_not() -> None:
    dates = (DateRange(date(2026, 12, 18), date(2026, 12, 21)),)
    days = Window(dates=dates, settle_before=3600.0, reason="holiday freeze")
    daily = Window(begins=330, ends=600, reason="daily peak")
    policy = Policy("holidays", Match(), windows=Windows("America/Los_Angeles", deny=(days, daily)))
    (one,) = season(BEGIN, END, (), [policy], ()).entries
    assert (one.kind, one.title, one.uid) == (
        "window",
        "holiday freeze",
        "window/holidays/2026-12-18 00:00 UTC-08:00@guardrail",
    )
    assert (one.begins_at, one.ends_at) == (at("2026-12-18T08:00"), at("2026-12-21T08:00"))
    assert not one.binds_back


def test_freezes_that_touch_the_season_are_in() -> None:
    def freeze(name: str, since: str, until: str | None) -> Freeze:
        return Freeze(name, "quiet", "ann", at(since), at(until) if until else None)

    freezes = (
        freeze("over", "2026-08-01", "2026-10-01"),
        freeze("reaching-in", "2026-09-01", "2026-10-02"),
        freeze("endless", "2026-01-01", None),
        freeze("later", "2027-03-01", "2027-03-02"),
    )
    found = season(BEGIN, END, (), (), freezes).entries
    assert [each.key for each in found] == ["command/endless", "command/reaching-in"]
    assert found[0].details == ("set by ann at command", "ends by: guardrail freeze off endless")
