"""A plan file says what was agreed to, and whether anybody has edited it since."""

import json
from dataclasses import replace

import pytest
from test_contract import contract, limited

from guardrail.contracting import kept
from guardrail.edges.store import PlanFolder
from guardrail.errors import Refused
from guardrail.files.contractfile import is_contract, read, written
from guardrail.files.planfile import load_plan, store_plan
from guardrail.twins import TwinStore


def test_it_is_read_as_it_was_written():
    made = contract(policies=(limited(1),))
    assert read(written(made), "plan.json") == made
    assert written(made) == written(read(written(made), "plan.json"))


def test_it_has_what_a_person_looks_for():
    content = json.loads(written(contract(policies=(limited(1),))))
    assert content["format"] == "guardrail/plan-file/v1"
    plan = content["contract"]["plan"]
    assert plan["hosts"][0]["version_seen"] == "1.8.7"
    assert plan["change"]["digest"] == "sha256:change"
    assert {"policies", "limits", "calendar", "waves"} <= plan.keys()
    assert content["contract"]["prediction"] is None


def test_its_digest_is_the_one_that_a_store_gives(tmp_path):
    made = contract()
    store = PlanFolder(str(tmp_path))
    assert store_plan(store, made.plan) == made.digest
    assert load_plan(store, made.digest) == made.plan


@pytest.mark.parametrize(
    "edit",
    [
        lambda c: c["contract"]["plan"].update(bake_for=0.0),
        lambda c: c["contract"]["plan"]["hosts"].pop(),
        lambda c: c["contract"]["request"]["rollout"]["tolerate"]["hosts"].update(value=50),
        lambda c: c["contract"]["policies"].clear(),
        lambda c: c.update(sum="sha256:0"),
    ],
)
def test_an_edit_is_known(edit):
    content = json.loads(written(contract(policies=(limited(1),))))
    edit(content)
    with pytest.raises(Refused, match="was edited"):
        read(json.dumps(content).encode(), "plan.json")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{}", "no plan file"),
        (b"no json", "no plan file"),
        (b'{"format": "guardrail/plan-file/v9"}', "made by a newer guardrail"),
    ],
)
def test_what_is_none_is_refused(data, words):
    with pytest.raises(Refused, match=words):
        read(data, "plan.json")


def test_it_is_known_by_its_first_words(tmp_path):
    plan, other = tmp_path / "a", tmp_path / "b"
    plan.write_bytes(written(contract()))
    other.write_text("apiVersion: guardrail/v1\n")
    assert is_contract(plan)
    assert not is_contract(other)
    assert not is_contract(tmp_path)


def test_the_worker_keeps_to_what_is_in_the_store():
    store, given = TwinStore(), contract()
    request = replace(given.request, contract=store.put(written(given)))
    now = contract(now=9000.0).plan
    assert kept(store, request, now, ()) == given.plan
    assert kept(store, replace(request, contract=""), now, ()) == now
    with pytest.raises(Refused):
        kept(TwinStore(), request, now, ())
