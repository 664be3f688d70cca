"""Which hosts does a policy cover, and which of several words on one thing counts?"""

from dataclasses import fields, replace
from itertools import permutations
from pathlib import Path

import pytest
from decide.plan_builders import amount, fleets, hosts, percent, plan, policies, policy
from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide.merge import matches, resolve, scope, terms, terms_of, with_more
from guardrail.decide.stricter import FIELDS, TOGETHER, merge
from guardrail.decide.terms import BUILT_IN, Resolved, Scope, Terms
from guardrail.model.calendar import Window, Windows
from guardrail.model.common import Origin
from guardrail.model.fleet import Host
from guardrail.model.gate import Age
from guardrail.model.policy import (
    Approvals,
    Churn,
    Failures,
    Match,
    PolicyEvidence,
    Recover,
    WarmUp,
)

HOST = Host("list", "c1", "127.0.0.1", "a", roles=("memcached",), labels=(("env", "prod"),))


# ---------------------------------------------------------------- which hosts


@pytest.mark.parametrize(
    ("match", "covered"),
    [
        (Match(), True),
        (Match(roles=("memcached", "web")), True),
        (Match(roles=("web",)), False),
        (Match(fleets=("cache",)), True),
        (Match(fleets=("web",)), False),
        (Match(labels=(("env", "prod"),)), True),
        (Match(labels=(("env", "lab"),)), False),
        (Match(labels=(("env", "lab"), ("env", "prod"))), True),
        (Match(agents=("consul",)), True),
        (Match(agents=("exporter",)), False),
        (Match(failure_domains=("a", "b")), True),
        (Match(failure_domains=("b",)), False),
        (Match(roles=("memcached",), agents=("exporter",)), False),
    ],
)
def test_a_host_matches_when_every_condition_has_a_word_of_it(match, covered):
    assert matches(policy(match=match), "cache", "consul", HOST) is covered


def test_a_host_with_no_known_role_meets_every_condition_on_roles_and_no_other():
    nobody = replace(HOST, roles=())
    assert matches(policy(match=Match(roles=("web",))), "cache", "consul", nobody)
    assert not matches(policy(match=Match(roles=("web",), fleets=("web",))), "cache", "x", nobody)


def test_a_host_with_no_known_domain_meets_every_condition_on_domains():
    somewhere = replace(HOST, failure_domain="")
    assert matches(policy(match=Match(failure_domains=("b",))), "cache", "consul", somewhere)


# ---------------------------------------------------------------- what a share is of


def test_a_share_is_of_the_hosts_the_policy_matches_up_or_down():
    fleet = hosts(288, down=20)
    found = resolve(terms_of([policy(limits={"unavailable": amount("5%")})], "f", "consul", fleet))
    assert found.unavailable.value == 14
    assert found.unavailable.written == "5%"
    assert str(found.unavailable.origin) == "policy cache (cache.yaml:10)"


def test_a_share_is_of_its_own_policys_hosts_and_the_fewest_hosts_win():
    fleet = (*hosts(20), *hosts(80, roles=("web",), prefix="web"))
    tier = policy("tier", match=Match(roles=("memcached",)), limits={"unavailable": amount("25%")})
    all_of_it = policy("all", limits={"unavailable": amount("10%")})
    found = resolve(terms_of([all_of_it, tier], "f", "consul", fleet))
    assert (found.unavailable.value, found.unavailable.origin.document) == (5, "policy tier")


def test_a_share_per_domain_is_of_the_smallest_domain():
    fleet = (*hosts(8, domains="a"), *hosts(4, domains="b", prefix="other"))
    p = policy(limits={"unavailable_per_domain": amount("50%")})
    assert scope(p, "f", "consul", fleet) == Scope(12, 12, 4)
    assert resolve(terms_of([p], "f", "consul", fleet)).unavailable_per_domain.value == 2


def test_a_count_is_what_it_says_also_where_the_policy_matches_fewer_hosts():
    fleet = (*hosts(2), *hosts(10, roles=("web",), prefix="web"))
    p = policy(match=Match(roles=("memcached",)), limits={"unavailable": amount(4)})
    assert resolve(terms_of([p], "f", "consul", fleet)).unavailable.value == 4


@pytest.mark.parametrize("written", [24, 25, 33, 34, 49, 50, 99, 100])
@pytest.mark.parametrize("count", [3, 4, 10])
def test_a_share_is_rounded_down_never_nothing_and_never_all_below_100(written, count):
    p = policy(limits={"unavailable": percent(written), "wave": percent(written)})
    found = resolve(terms_of([p], "f", "consul", hosts(count)))
    for limit in (found.unavailable.value, found.wave.value):
        assert limit == max(1, written * count // 100)
        assert (limit == count) is (written == 100)


def test_no_failure_may_be_allowed_though_every_other_limit_allows_one_host():
    p = policy(limits={"unavailable": amount("1%"), "failures": Failures(share=percent(1))})
    found = resolve(terms_of([p], "f", "consul", hosts(10)))
    assert (found.unavailable.value, found.failures.value) == (1, 0)


def test_of_hosts_and_share_that_may_fail_the_fewer_count():
    p = policy(limits={"failures": Failures(hosts=5, share=percent(10), consecutive=2)})
    found = resolve(terms_of([p], "f", "consul", hosts(30)))
    assert (found.failures.value, found.failures.written) == (3, "10%")
    assert found.failures_consecutive.value == 2
    assert (found.failures_share.value, found.failures_share.written) == (10.0, "10%")


# ---------------------------------------------------------------- strictest per field

LOOSE = policy(
    "loose",
    limits={"domains_at_once": 3, "pace_between": 5.0, "failures": Failures(hosts=4)},
    bake_for=60.0,
    evidence=PolicyEvidence(Age(seconds=30.0), 60.0),
    recover=Recover("evidence", 60.0),
    rollback_when="ask",
    approvals=Approvals(("start",), 1, not_requester=False),
    required_gates=("margin",),
)
STRICT = policy(
    "strict",
    limits={"domains_at_once": 1, "pace_between": 30.0, "failures": Failures(hosts=0)},
    bake_for=600.0,
    evidence=PolicyEvidence(Age(seconds=10.0), 10.0),
    recover=Recover("person", 300.0),
    rollback_when="never",
    approvals=Approvals(("10%",), 2, not_requester=True),
    required_gates=("hit-ratio", "margin"),
)


def test_the_strictest_word_on_each_thing_counts_with_where_it_was_written():
    for pair in ([LOOSE, STRICT], [STRICT, LOOSE]):
        found = resolve(terms_of(pair, "f", "consul", hosts(3)))
        assert found.domains_at_once.value == 1
        assert (found.pace.value, found.bake.value) == (30.0, 600.0)
        assert (found.failures.value, found.grace.value) == (0, 10.0)
        assert (found.recover_by.value, found.recover_for.value) == ("person", 300.0)
        assert found.rollback_when.value == "never"
        assert found.max_ages == (Age(seconds=10.0),)
        assert [p.value for p in found.approval_points] == ["10%", "start"]
        assert (found.approval_count.value, found.not_requester) == (2, True)
        assert [g.value for g in found.gates] == ["hit-ratio", "margin"]
        assert found.bake.origin.document == "policy strict"
        assert found.policies == (("loose", "sha256:loose"), ("strict", "sha256:strict"))


def test_an_age_in_seconds_and_one_in_scrapes_both_hold():
    one = policy("one", evidence=PolicyEvidence(Age(seconds=10.0)))
    two = policy("two", evidence=PolicyEvidence(Age(scrapes=3.0)))
    found = resolve(terms_of([one, two], "f", "consul", hosts(1)))
    assert found.max_ages == (Age(seconds=10.0), Age(scrapes=3.0))


def test_a_policy_that_matches_no_host_says_nothing():
    web = policy("web", match=Match(roles=("web",)), limits={"unavailable": amount(1)})
    assert terms_of([web], "f", "consul", hosts(3)) == Terms()


def test_a_policy_whose_hosts_are_all_down_still_counts():
    p = policy(limits={"unavailable": amount(2)})
    assert resolve(terms_of([p], "f", "consul", hosts(3, down=3))).unavailable.value == 2


def test_where_nobody_says_anything_the_defaults_are_safe_and_say_so():
    found = resolve(Terms())
    assert found.unavailable.value == found.unavailable_per_domain.value == 1
    assert found.domains_at_once.value == 1
    assert (found.failures.value, found.bake.value, found.pace.value) == (0, 600.0, 0.0)
    assert (found.grace.value, found.recover_for.value) == (10.0, 300.0)
    assert found.unavailable.origin == BUILT_IN == Origin("built-in default", "", 0)
    assert found.recover_by.value == "evidence"


def test_hosts_that_no_policy_covers_go_a_few_at_a_time_and_not_without_a_second_person():
    found = resolve(Terms())
    assert found.wave.value == 10
    assert [point.value for point in found.approval_points] == ["start"]
    assert (found.approval_count.value, found.not_requester) == (1, True)
    assert found.rollback_when.value == "ask"
    made = plan(hosts(25), "100%")
    assert [wave.end for wave in made.waves] == [10, 20, 25]
    assert [(p.point, p.wave, p.not_requester) for p in made.approvals] == [("start", 0, True)]
    assert made.caps.unavailable == 1


def test_a_policy_that_says_anything_takes_the_place_of_that():
    found = resolve(terms_of([policy()], "f", "consul", hosts(3)))
    assert (found.wave, found.approval_points, found.not_requester) == (None, (), False)


def test_two_churn_limits_hold_together_unless_one_implies_the_other():
    def said(departures, per):
        return terms(policy(limits={"churn": Churn(departures, per)}), Scope(9, 9, 3))

    short, long = said(6, 600.0), said(20, 3600.0)
    both = resolve(merge(short, long))
    assert [stated.value for stated in both.churn] == [Churn(6, 600.0), Churn(20, 3600.0)]
    assert merge(both_said := said(5, 4000.0), merge(short, long)) == both_said


def test_each_warm_up_gate_holds_with_its_shortest_time():
    one = policy("one", warm_up=WarmUp("warm", 900.0))
    two = policy("two", warm_up=WarmUp("warm", 300.0))
    three = policy("three", warm_up=WarmUp("filled", 600.0))
    found = resolve(terms_of([one, two, three], "f", "consul", hosts(2)))
    assert [s.value for s in found.warm_up] == [WarmUp("filled", 600.0), WarmUp("warm", 300.0)]
    assert found.warm_up[1].origin.document == "policy two"


def test_a_limit_has_the_word_and_the_owners_of_every_policy_the_strictest_first():
    tight = policy("tight", limits={"unavailable": amount(1)}, owners=("storage", "db"))
    wide = policy("wide", limits={"unavailable": amount(4)}, owners=("release",))
    made = plan(hosts(20), policies=[wide, tight])
    limit = next(limit for limit in made.limits if limit.name == "unavailable")
    assert [(word.policy, word.value, word.owners) for word in limit.words] == [
        ("tight", 1.0, ("storage", "db")),
        ("wide", 4.0, ("release",)),
    ]


def test_where_cache_critical_a_person_ends_a_hold_also_when_another_policy_says_evidence():
    critical = policy("critical", cache_critical=True)
    other = policy("other", recover=Recover("evidence"))
    alone = resolve(terms_of([critical], "f", "consul", hosts(1)))
    both = resolve(terms_of([critical, other], "f", "consul", hosts(1)))
    assert alone.recover_by.value == both.recover_by.value == "person"
    assert both.cache_critical


def test_a_place_that_is_not_known_falls_back_to_what_is_around_it():
    p = replace(LOOSE, origins=(("limits", Origin("policy loose", "loose.yaml", 7)),))
    found = terms(p, Scope(3, 3, 3))
    assert found.pace.origin.line == 7
    assert found.bake.origin == Origin("policy loose", "loose.yaml", 1)


def test_each_word_of_a_list_has_its_own_place():
    places = (
        ("gates.require", Origin("policy p", "p.yaml", 3)),
        ("gates.require.1", Origin("policy p", "p.yaml", 5)),
    )
    found = terms(replace(LOOSE, required_gates=("z", "b"), origins=places), Scope(3, 3, 3))
    assert [(gate.value, gate.origin.line) for gate in found.gates] == [("b", 5), ("z", 3)]


# ---------------------------------------------------------------- windows


def test_windows_of_all_policies_count_each_entry_with_its_place():
    places = (
        ("windows", Origin("policy one", "one.yaml", 5)),
        ("windows.deny.0", Origin("policy one", "one.yaml", 7)),
        ("windows.allow", Origin("policy one", "one.yaml", 9)),
    )
    entry = Window(begins=60, ends=120)
    one = replace(policy("one", windows=Windows("UTC", (entry,), (entry,))), origins=places)
    two = policy("two", windows=Windows("UTC", (entry,), (), "same"))
    found = terms_of([two, one, policy("three")], "f", "consul", hosts(3)).windows
    assert [s.origin.document for s in found] == ["policy one", "policy two"]
    assert found[0].value.deny[0].origin.line == 7
    assert found[0].value.origin.line == 9
    assert found[0].written == "deny 01:00-02:00; allow 01:00-02:00 UTC"
    assert terms_of([one, one], "f", "consul", hosts(3)).windows == found[:1]


# ---------------------------------------------------------------- the table


def test_every_field_has_one_meaning_and_the_docs_say_the_same():
    named = [*FIELDS, *TOGETHER]
    assert sorted(named) == sorted(Terms.__dataclass_fields__)
    rows = [(meaning.path, meaning.words) for meaning in FIELDS.values()]
    table = []
    for path, words in (*rows, *TOGETHER.values()):
        head, _, rest = path.partition(", ")
        table.append(f"| `{head}`{', ' + rest if rest else ''} | {words} |")
    text = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
    written = [line for line in text.splitlines() if line.startswith("| `")]
    assert written[: len(table)] == table


# ---------------------------------------------------------------- laws

some_terms = st.builds(terms, policies(), st.just(Scope(20, 10, 4))) | st.builds(
    terms, policies(), st.builds(Scope, st.just(20), st.integers(1, 20), st.integers(1, 5))
)


@given(some_terms, some_terms)
def test_merge_is_commutative(one, other):
    assert merge(one, other) == merge(other, one)


@given(some_terms, some_terms, some_terms)
def test_merge_is_associative(one, two, three):
    assert merge(merge(one, two), three) == merge(one, merge(two, three))


@given(some_terms)
def test_merge_is_idempotent_and_silence_changes_nothing(one):
    assert merge(one, one) == one == merge(one, Terms()) == merge(Terms(), one)


@given(some_terms, some_terms)
def test_merge_takes_one_of_the_two_and_never_the_looser(one, other):
    both = merge(one, other)
    for name, meaning in FIELDS.items():
        said = [v for v in (getattr(one, name), getattr(other, name)) if v is not None]
        taken = getattr(both, name)
        assert (taken in said) if said else taken is None
        assert all(meaning.rank(taken.value) <= meaning.rank(value.value) for value in said)


def as_strict(more, less):
    """Whether everything that `less` states is stated at least as strictly by `more`."""
    numbers = all(
        meaning.rank(getattr(more, name).value) <= meaning.rank(stated.value)
        for name, meaning in FIELDS.items()
        if (stated := getattr(less, name)) is not None
    )
    words = all(
        {s.value for s in getattr(more, name)} >= {s.value for s in getattr(less, name)}
        for name in ("gates", "approval_points", "windows")
    )
    return numbers and words and set(more.policies) >= set(less.policies)


@given(st.lists(policies(), max_size=4), policies(), fleets(), st.randoms())
def test_adding_a_policy_never_loosens_and_order_does_not_matter(known, added, fleet, random):
    before = terms_of(known, "f", "consul", fleet)
    more = [*known, added]
    random.shuffle(more)
    after = terms_of(more, "f", "consul", fleet)
    assert after == terms_of([*known, added], "f", "consul", fleet)
    assert as_strict(after, before)
    if before.recover_by is not None or before.cache_critical is not None:
        assert resolve(before).recover_by.value in ("evidence", resolve(after).recover_by.value)


def loosened(before, after, *, defaults=False):
    """The fields of `Resolved` that are looser after than before; defaults: of those as well."""
    found = []
    for name, meaning in FIELDS.items():
        old, new = getattr(before, name), getattr(after, name)
        if old is None or (getattr(old, "origin", None) == BUILT_IN and not defaults):
            continue  # nothing was said: the first word takes the default's place
        if new is None or meaning.rank(value_of(new)) > meaning.rank(value_of(old)):
            found.append(name)
    for name in ("gates", "approval_points", "windows"):
        said = {s.value for s in getattr(before, name) if defaults or s.origin != BUILT_IN}
        found += [name] if not said <= {s.value for s in getattr(after, name)} else []
    kept = all(any(n.value.implies(o.value) for n in after.churn) for o in before.churn)
    times = {s.value.gate: s.value.within for s in after.warm_up}
    warm = all(times.get(s.value.gate, 1e9) <= s.value.within for s in before.warm_up)
    return found + ([] if kept else ["churn"]) + ([] if warm else ["warm_up"])


def value_of(stated):
    return stated.value if hasattr(stated, "value") else stated


@given(st.lists(policies(), min_size=1, max_size=3), policies(), fleets())
def test_adding_a_policy_never_loosens_what_an_operation_keeps_to(known, added, fleet):
    said = terms_of(known, "f", "consul", fleet)
    if not said.policies:
        return  # the built-in default: a policy takes its place
    assert loosened(resolve(said), resolve(terms_of([*known, added], "f", "consul", fleet))) == []


@given(st.lists(policies(), max_size=3), policies(), fleets())
def test_what_a_caller_adds_never_loosens_anything_not_even_a_default(known, added, fleet):
    said, more = (terms_of(these, "f", "consul", fleet) for these in (known, [added]))
    after = resolve(with_more(said, more))
    assert loosened(resolve(said), after, defaults=True) == []
    assert loosened(resolve(merge(said, more)), after, defaults=True) == []
    assert resolve(with_more(said, Terms())) == resolve(said)


@given(st.lists(policies(), min_size=1, max_size=3), fleets())
def test_resolved_does_not_depend_on_the_order_or_on_how_often_a_policy_is_given(known, fleet):
    found = {resolve(terms_of(p, "f", "consul", fleet)) for p in permutations(known)}
    found.add(resolve(terms_of([*known, *known], "f", "consul", fleet)))
    assert len(found) == 1


@given(st.lists(policies(), max_size=3), fleets(), st.integers(0, 2))
def test_a_host_without_a_role_never_makes_its_fleet_less_careful(known, fleet, which):
    host = fleet[which % len(fleet)]
    nobody = tuple(replace(h, roles=()) if h is host else h for h in fleet)
    matched = {p.name for p in known if matches(p, "f", "consul", host)}
    assert matched <= {p.name for p in known if any(matches(p, "f", "consul", h) for h in nobody)}


def test_the_laws_look_at_every_field_of_what_is_resolved():
    named = {field.name for field in fields(Resolved)}
    assert named == {*FIELDS, *TOGETHER}


@given(st.lists(policies(), max_size=4), fleets())
def test_limits_are_whole_numbers_of_hosts_and_never_nothing(known, fleet):
    found = resolve(terms_of(known, "f", "consul", fleet))
    limits = [found.unavailable, found.unavailable_per_domain, found.domains_at_once]
    limits += [found.wave] if found.wave else []
    assert all(isinstance(limit.value, int) and limit.value >= 1 for limit in limits)
    assert found.failures.value >= 0
