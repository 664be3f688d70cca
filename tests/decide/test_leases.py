"""The table of leases: what is granted, who waits, and that there never are two."""

import dataclasses

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from guardrail.decide import leases
from guardrail.model.lease import (
    LAST_FOR,
    Break,
    Claim,
    Done,
    Holder,
    Share,
    Table,
    Wanted,
)

BIG = Share(4, 2, 2)


def claim(role="web", *, exclusive=False, ask=BIG, limit=BIG):
    return Claim(role, exclusive, ask, limit)


CACHE = claim("memcached", exclusive=True)


def wanted(name, *claims, turn=1, urgent=False, keep=False, token=0):
    priority = "urgent" if urgent else "normal"
    holder = Holder(name, f"{name}'s person", f"why {name}", priority)
    return Wanted(holder, turn, claims or (CACHE,), keep, token)


def asked(table, now, *wants):
    """The table after these were asked, and their answers."""
    answers = []
    for want in wants:
        table, answer = leases.ask(table, want, now)
        answers.append(answer)
    return table, answers


# ---------------------------------------------------------------- asking


def test_a_cache_critical_role_goes_to_one_and_the_other_hears_who_has_it():
    _, (one, two) = asked(Table(), 1000.0, wanted("a"), wanted("b"))
    assert (one.word, one.grant.roles) == ("granted", ("memcached",))
    assert two.word == "waits"
    assert two.reasons[0].startswith("memcached is held by a (a's person: why a) since 00:16:40Z")
    assert two.reasons[0].endswith("until 00:17:10Z unless renewed")


def test_the_same_ask_twice_has_the_same_token_and_lasts_longer():
    table, (one,) = asked(Table(), 1000.0, wanted("a"))
    table, (two,) = asked(table, 1020.0, wanted("a"))
    assert one.grant == two.grant
    assert table.of("a").expires_at == 1020.0 + LAST_FOR


def test_all_roles_are_granted_or_none():
    both = (claim("x", exclusive=True), claim("y", exclusive=True))
    table, _ = asked(Table(), 0.0, wanted("a", both[0]))
    table, (second, third) = asked(table, 1.0, wanted("b", *both), wanted("c", both[1]))
    assert second.word == "waits"
    assert table.of("b") is None
    # c wants only what is free; b waits for it longer
    assert "b (b's person: why b) waits for y and comes first" in third.reasons


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (Share(1, 1, 1), BIG, Share(3, 1, 1)),
        (Share(3, 1, 1), BIG, Share(1, 1, 1)),
        (Share(1, 1, 1), Share(2, 1, 1), Share(2, 1, 1)),
        (Share(4, 1, 1), BIG, None),
        (Share(1, 2, 1), BIG, None),
        (Share(1, 1, 2), BIG, None),
    ],
)
def test_what_is_shared_stays_within_the_limit(first, second, left):
    table, _ = asked(Table(), 0.0, wanted("a", claim(ask=first)))
    _, (answer,) = asked(table, 1.0, wanted("b", claim(ask=second)))
    assert (answer.grant.share if answer.grant else None) == left


def test_the_strictest_limit_of_all_who_share_counts():
    strict = claim(ask=Share(1, 1, 1), limit=Share(2, 2, 2))
    table, _ = asked(Table(), 0.0, wanted("a", strict))
    _, (answer,) = asked(table, 1.0, wanted("b", claim(ask=BIG)))
    assert answer.grant.share == Share(1, 1, 1)


def test_alone_an_operation_has_what_it_asks_for():
    down = claim(ask=Share(4, 2, 2), limit=Share(3, 1, 2))
    _, (answer,) = asked(Table(), 0.0, wanted("a", down))
    assert answer.grant.share == Share(4, 2, 2)


def test_what_is_exclusive_for_one_is_for_the_other():
    table, _ = asked(Table(), 0.0, wanted("a", claim(ask=Share(1, 1, 1))))
    _, (answer,) = asked(table, 1.0, wanted("b", claim(exclusive=True)))
    assert answer.word == "waits"


# ---------------------------------------------------------------- order and urgency


def test_who_waits_is_served_in_order():
    table, _ = asked(Table(), 0.0, wanted("a"), wanted("b"))
    table, _ = asked(table, 1.0, wanted("c"))
    table = leases.give_back(table, Done("a", 1), 2.0)
    table, (third, second) = asked(table, 3.0, wanted("c"), wanted("b"))
    assert (third.word, second.word) == ("waits", "granted")


def test_who_does_not_ask_again_is_passed_by():
    table, _ = asked(Table(), 0.0, wanted("a"), wanted("b"))
    table = leases.give_back(table, Done("a", 1), 2.0)
    _, (third,) = asked(table, 1.0 + LAST_FOR, wanted("c"))
    assert third.word == "granted"


def test_an_urgent_one_is_wanted_for_and_comes_first():
    table, _ = asked(Table(), 0.0, wanted("a"), wanted("b"))
    table, (urgent, again) = asked(table, 1.0, wanted("u", urgent=True), wanted("a"))
    assert (urgent.word, again.word) == ("waits", "wanted")
    assert again.reasons == ("u is urgent (u's person: why u) and waits for memcached",)
    table, (yielded,) = asked(table, 2.0, wanted("a", turn=2))
    assert yielded.word == "waits"
    assert asked(table, 3.0, wanted("b"))[1][0].word == "waits"
    assert asked(table, 3.0, wanted("u", urgent=True))[1][0].word == "granted"


def test_urgent_does_not_make_urgent_yield():
    first, second = wanted("a", urgent=True), wanted("b", urgent=True)
    table, _ = asked(Table(), 0.0, first, second)
    assert asked(table, 1.0, first)[1][0].word == "granted"


def test_who_has_what_others_wait_for_is_not_kept_waiting_by_them():
    x, y = claim("x", exclusive=True), claim("y", exclusive=True)
    table, _ = asked(Table(), 0.0, wanted("b", y), wanted("a", x, y))
    more = wanted("b", x, y, turn=2, keep=True, token=1)
    assert asked(table, 1.0, more)[1][0].word == "granted"


def test_a_token_is_at_least_the_time_in_milliseconds():
    _, (answer,) = asked(Table(), 1_796_000_000.25, wanted("a"))
    assert answer.grant.token == 1_796_000_000_250


# ---------------------------------------------------------------- keeping, giving back, late asks


def test_what_is_kept_stays_while_more_is_waited_for():
    x, y = claim("x", exclusive=True), claim("y", exclusive=True)
    table, _ = asked(Table(), 0.0, wanted("a", x), wanted("b", y))
    more = wanted("a", x, y, turn=2, keep=True, token=1)
    table, (answer, again) = asked(table, 20.0, more, more)
    assert answer.word == again.word == "waits"
    assert table.of("a").roles == ("x",)
    assert table.of("a").expires_at == 20.0 + LAST_FOR
    table = leases.give_back(table, Done("b", 1), 21.0)
    table, (answer,) = asked(table, 22.0, more)
    assert (answer.word, table.of("a").roles, answer.anew) == ("granted", ("x", "y"), False)


def test_an_ask_that_comes_after_its_lease_was_given_back_changes_nothing():
    table, _ = asked(Table(), 0.0, wanted("a", turn=3))
    table = leases.give_back(table, Done("a", 3), 1.0)
    after, (late,) = asked(table, 2.0, wanted("a", turn=3))
    assert late.word == "superseded"
    assert after.of("a") is None
    assert asked(table, 2.0, wanted("a", turn=4))[1][0].word == "granted"


def test_what_was_asked_since_is_not_given_back():
    table, _ = asked(Table(), 0.0, wanted("a", turn=3))
    table = leases.give_back(table, Done("a", 2), 1.0)
    assert table.of("a") is not None


# ---------------------------------------------------------------- orphaned, broken, lost


def test_a_silent_holder_still_blocks_and_is_named():
    table, _ = asked(Table(), 0.0, wanted("a"))
    _, (answer,) = asked(table, 3600.0, wanted("b"))
    assert answer.word == "waits"
    assert "orphaned: not renewed since 00:00:00Z" in answer.reasons[0]


def test_an_orphaned_lease_is_its_holders_again_with_a_new_token():
    table, (one,) = asked(Table(), 0.0, wanted("a"))
    table, (two,) = asked(table, 100.0, wanted("a"))
    assert (two.word, two.anew) == ("granted", True)
    assert two.grant.token > one.grant.token


def test_breaking_an_orphaned_lease_frees_it_and_its_holder_hears_of_it():
    table, (one,) = asked(Table(), 0.0, wanted("a"))
    said = Break("memcached", "bob", "a is gone")
    table = leases.broken(table, said, 100.0)
    table, (other, back) = asked(
        table, 101.0, wanted("b"), wanted("a", turn=2, keep=True, token=one.grant.token)
    )
    assert (other.word, back.word, back.by) == ("granted", "broken", "bob")
    assert "broken by bob: a is gone" in back.reasons[0]


def test_breaking_a_live_lease_blocks_until_its_holder_has_settled():
    table, _ = asked(Table(), 0.0, wanted("a"))
    table = leases.broken(table, Break("memcached", "bob", "mine now"), 1.0)
    table, (other, holder) = asked(table, 2.0, wanted("b"), wanted("a"))
    assert (other.word, holder.word) == ("waits", "broken")
    assert "broken by bob, and its hosts have not settled" in other.reasons[0]
    table, (other,) = asked(table, 2.0 + LAST_FOR, wanted("b"))
    assert other.word == "waits"  # its holder was heard at 2.0
    settled = leases.give_back(table, Done("a", 1), 3.0)
    assert asked(settled, 4.0, wanted("b"))[1][0].word == "granted"
    assert asked(table, 2.1 + LAST_FOR, wanted("b"))[1][0].word == "granted"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Break("memcached", "", "x"), "say who you are"),
        (Break("memcached", "bob", ""), "needs --reason"),
        (Break("web", "bob", "x"), "nobody holds web; held are: memcached"),
        (Break("memcached", "bob", "x", "b"), "nobody holds memcached by b"),
    ],
)
def test_what_cannot_be_broken_is_refused(said, why):
    table, _ = asked(Table(), 0.0, wanted("a"))
    assert why in leases.refusal(table, said, 1.0)


def test_what_is_only_for_orphans_breaks_no_live_lease():
    table, _ = asked(Table(), 0.0, wanted("a"))
    said = Break("memcached", "guardrail", "its hosts serve", "a", orphaned=True)
    assert "nobody holds memcached by a" in leases.refusal(table, said, 10.0)
    assert leases.broken(table, said, 10.0) == table
    assert leases.broken(table, said, 100.0).leases == ()


def test_a_table_that_was_lost_asks_first_who_had_a_lease():
    table = leases.opened(1000.0, careful=True)
    mine = wanted("a", turn=5, keep=True, token=2_000_000_000)
    table, answers = asked(table, 1001.0, wanted("b"), mine)
    assert [a.word for a in answers] == ["waits", "waits"]
    table, (other, holder) = asked(table, 1000.0 + LAST_FOR, wanted("b"), mine)
    assert (other.word, holder.word, holder.anew) == ("waits", "granted", True)
    assert holder.grant.token > 2_000_000_000


# ---------------------------------------------------------------- whatever happens


CLAIMS = (
    (CACHE,),
    (claim("web", ask=Share(2, 1, 1)),),
    (claim("web", ask=Share(4, 2, 2), limit=Share(3, 2, 2)),),
    (CACHE, claim("web", ask=Share(1, 1, 2))),
    (claim("web", exclusive=True), claim("db", exclusive=True)),
)
NAMES = ("a", "b", "c")


@dataclasses.dataclass
class Belief:
    """What an operation believes to have, and until when it goes by it without a word."""

    parts: tuple
    token: int
    until: float


class Anything(RuleBasedStateMachine):
    """Operations that ask, renew, die, come back late; people who break; tables that are lost."""

    def __init__(self):
        super().__init__()
        self.table = Table()
        self.now = 1_000.0
        self.turn = dict.fromkeys(NAMES, 0)
        self.turn_at = dict.fromkeys(NAMES, 0.0)
        self.lost_at_turn = dict.fromkeys(NAMES, -1)
        self.last = {}
        self.beliefs = {}
        self.tokens = [0]

    def say(self, want):
        name = want.holder.operation
        others = [x for x in self.table.leases if x.holder.operation != name and not x.broken_by]
        self.table, answer = leases.ask(self.table, want, self.now)
        assert all(self.table.of(x.holder.operation) == x for x in others)
        if want.turn < self.turn[name]:
            known = self.lost_at_turn[name] < self.turn[name]
            known = known and self.now < self.turn_at[name] + leases.REMEMBER
            assert answer.word in ("superseded", "broken") or not known
            return  # a zombie's: its operation does not hear it
        if answer.grant is not None:
            token = answer.grant.token
            if token not in self.tokens:
                assert token > max(self.tokens)
                self.tokens.append(token)
            parts = self.table.of(name).parts
            self.beliefs[name] = Belief(parts, token, self.now + LAST_FOR)
        elif answer.word == "broken" or (answer.word == "waits" and not self.table.of(name)):
            self.beliefs.pop(name, None)

    @rule(name=st.sampled_from(NAMES), what=st.sampled_from(CLAIMS), keep=st.booleans(),
          urgent=st.booleans())  # fmt: skip
    def asks(self, name, what, keep, urgent):
        self.turn[name] += 1
        self.turn_at[name] = self.now
        had = self.beliefs.get(name)
        keep = keep and had is not None
        if not keep:
            self.beliefs.pop(name, None)
        token = had.token if keep else 0
        want = wanted(name, *what, turn=self.turn[name], urgent=urgent, keep=keep, token=token)
        self.last.setdefault(name, []).append(want)
        self.say(want)

    @precondition(lambda self: self.last)
    @rule(data=st.data())
    def renews_or_comes_late(self, data):
        name = data.draw(st.sampled_from(sorted(self.last)))
        self.say(data.draw(st.sampled_from(self.last[name][-3:])))

    @rule(name=st.sampled_from(NAMES))
    def gives_back(self, name):
        self.beliefs.pop(name, None)
        self.turn[name] += 1
        self.turn_at[name] = self.now
        self.table = leases.give_back(self.table, Done(name, self.turn[name]), self.now)

    @rule(role=st.sampled_from(("memcached", "web", "db")))
    def is_broken(self, role):
        said = Break(role, "bob", "because")
        if leases.refusal(self.table, said, self.now) is None:
            self.table = leases.broken(self.table, said, self.now)

    @rule(seconds=st.sampled_from((0.1, 5.0, 29.0, 31.0, 4000.0)))
    def time_passes(self, seconds):
        self.now += seconds
        self.beliefs = {n: b for n, b in self.beliefs.items() if self.now <= b.until}

    @rule()
    def the_table_is_lost(self):
        self.lost_at_turn = dict(self.turn)
        self.table = leases.opened(self.now, careful=True)

    @invariant()
    def no_two_hold_what_only_one_may(self):
        for records in (
            [(x.holder.operation, x.parts) for x in self.table.leases],
            [(name, belief.parts) for name, belief in self.beliefs.items()],
        ):
            self.within(records)

    def within(self, records):
        for role in ("memcached", "web", "db"):
            parts = [part for _, own in records for part in own if part.role == role]
            if len(parts) < 2:
                continue
            assert not any(part.exclusive for part in parts), records
            for field in ("hosts", "per_domain", "domains"):
                limit = min(getattr(part.limit, field) for part in parts)
                assert sum(getattr(part.share, field) for part in parts) <= limit, records

    @invariant()
    def somebody_can_go_on(self):
        """Nobody waits for nothing: with no lease on any role, the first in the queue gets it."""
        if self.table.leases or self.now < self.table.careful_until:
            return
        live = [w for w in self.table.waiting if w.until >= self.now]
        asks = [Wanted(w.holder, w.turn, w.claims, bool(w.token), w.token) for w in live]
        words = [leases.look(self.table, want, self.now).word for want in asks]
        assert not asks or "granted" in words


Anything.TestCase.settings = settings(max_examples=300, stateful_step_count=40)
TestAnything = Anything.TestCase
