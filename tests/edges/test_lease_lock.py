"""Is a lease a lock of a real Consul's, too, where that is asked for, and the other way round?"""

import base64
import json
import time

import httpx
import pytest
from test_consul_real import Agent

from guardrail.decide import leases
from guardrail.edges.lease_lock import ConsulLocks, MirroredDesk, desk_of
from guardrail.edges.leases import Desk
from guardrail.errors import Refused
from guardrail.model.common import Secret
from guardrail.model.lease import Break, Claim, Done, Holder, Share, Table, Wanted
from guardrail.settings import Settings
from guardrail_workflows.activities import Activities

pytestmark = pytest.mark.real
ONE = Share(1, 1, 1)


class Client:
    namespace = "default"


@pytest.fixture(scope="module")
def consul(tmp_path_factory):
    agent = Agent(
        tmp_path_factory.mktemp("lock"), "server", {"server": True, "bootstrap_expect": 1}
    )
    try:
        agent.start()
        writable(agent)
        yield agent
    finally:
        agent.kill()


def leads(agent):
    """Whether it can be written to."""
    try:
        return httpx.put(f"{agent.url}/v1/kv/ready", content="yes").text.strip() == "true"
    except httpx.HTTPError:
        return False


def writable(agent):
    give_up = time.monotonic() + 30
    while not leads(agent):
        assert time.monotonic() < give_up
        time.sleep(0.1)


def sessions(agent):
    return [one["ID"] for one in httpx.get(f"{agent.url}/v1/session/list").json()]


@pytest.fixture
def table(monkeypatch):
    """The table of leases, in memory: what of it is on Temporal is tried elsewhere."""
    known = {"table": Table()}

    async def ask(_, wanted):
        known["table"], answer = leases.ask(known["table"], wanted, time.time())
        return answer

    async def look(_, wanted):
        return leases.look(known["table"], wanted, time.time())

    async def give_back(_, done):
        known["table"] = leases.give_back(known["table"], done, time.time())

    async def read(_):
        return known["table"]

    async def break_lease(_, said):
        known["table"] = leases.broken(known["table"], said, time.time())
        return known["table"]

    for name, method in (
        ("ask", ask),
        ("look", look),
        ("give_back", give_back),
        ("table", read),
        ("break_lease", break_lease),
    ):
        monkeypatch.setattr(Desk, name, method)
    return known


@pytest.fixture
def desk(consul, table, request):
    """With keys of its own for each test."""
    return desk_of(Client, "", f"{consul.url}/locks/{request.node.name}")


def wanted(operation="one", role="memcached", *, turn=1, exclusive=True):
    return Wanted(
        Holder(operation, "ann", "agent 1 to 2"), turn, (Claim(role, exclusive, ONE, ONE),)
    )


def key(consul, desk, role="memcached"):
    answer = httpx.get(f"{consul.url}/v1/kv/{desk.locks.prefix}/{role}")
    return answer.json()[0] if answer.status_code == 200 else {}


def stranger(consul, name="deploy"):
    body = {"Name": name, "LockDelay": "0s"}
    return httpx.put(f"{consul.url}/v1/session/create", json=body).json()["ID"]


def acquire(consul, desk, session, value="bob deploys"):
    path = f"{consul.url}/v1/kv/{desk.locks.prefix}/memcached"
    return httpx.put(path, params={"acquire": session}, content=value).json()


def release(consul, desk, session):
    path = f"{consul.url}/v1/kv/{desk.locks.prefix}/memcached"
    assert httpx.put(path, params={"release": session}).json()


async def test_a_granted_lease_is_locked_and_given_back_it_is_free_at_once(consul, desk):
    assert (await desk.ask(wanted())).word == "granted"
    locked = key(consul, desk)
    assert json.loads(base64.b64decode(locked["Value"]))["operation"] == "one"
    other = stranger(consul)
    assert acquire(consul, desk, other) is False
    assert (await desk.ask(wanted())).word == "granted"  # renewed, with the same session
    assert key(consul, desk)["Session"] == locked["Session"]
    await desk.give_back(Done("one", 1))
    assert "Session" not in key(consul, desk)
    assert acquire(consul, desk, other) is True
    assert locked["Session"] not in sessions(consul)


async def test_a_lock_of_somebody_else_is_a_lease_that_waits_and_names_the_holder(consul, desk):
    other = stranger(consul)
    assert acquire(consul, desk, other)
    answer = await desk.ask(wanted())
    assert (answer.word, answer.grant) == ("waits", None)
    (reason,) = answer.reasons
    assert "memcached is locked in Consul" in reason
    assert f"by bob deploys, session deploy ({other})" in reason
    assert (await desk.look(wanted())).reasons == answer.reasons
    release(consul, desk, other)
    assert (await desk.look(wanted())).word == "granted"
    assert (await desk.ask(wanted())).word == "granted"


async def test_another_namespace_is_named_by_its_operation(consul, desk, table):
    assert (await desk.ask(wanted())).word == "granted"
    table["table"] = Table()  # the other one has a table of its own
    elsewhere = ConsulLocks(consul.url, desk.locks.prefix, "elsewhere")
    answer = await MirroredDesk(Client, "", elsewhere).ask(wanted("two"))
    assert answer.word == "waits"
    assert "by one (ann: agent 1 to 2), session guardrail default one" in answer.reasons[0]


async def test_all_roles_are_locked_or_none(consul, desk):
    other = stranger(consul)
    assert acquire(consul, desk, other)
    both = Wanted(
        Holder("one", "ann", "x"),
        1,
        (Claim("alpha", True, ONE, ONE), Claim("memcached", True, ONE, ONE)),
    )
    assert (await desk.ask(both)).word == "waits"
    assert "Session" not in key(consul, desk, "alpha")


async def test_a_role_that_is_shared_has_no_lock(consul, desk):
    assert (await desk.ask(wanted(exclusive=False))).word == "granted"
    assert key(consul, desk) == {}


async def test_a_late_word_that_it_is_over_unlocks_nothing(consul, desk):
    assert (await desk.ask(wanted(turn=3))).word == "granted"
    await desk.give_back(Done("one", 2))
    assert "Session" in key(consul, desk)


async def test_a_lease_that_is_broken_as_an_orphan_is_unlocked(consul, desk, monkeypatch):
    monkeypatch.setattr(leases, "LAST_FOR", -1.0)
    assert (await desk.ask(wanted())).word == "granted"
    await desk.break_lease(Break("memcached", "cid", "looked"))
    assert "Session" not in key(consul, desk)


async def test_the_lock_outlives_a_server_that_restarts_and_silence_is_a_lease_that_waits(
    consul, desk
):
    assert (await desk.ask(wanted())).word == "granted"
    locked = key(consul, desk)
    consul.kill()
    answer = await desk.ask(wanted())
    assert answer.word == "waits"
    assert "whether memcached can be locked in Consul is not known: Consul at" in answer.reasons[0]
    assert (await desk.look(wanted())).word == "waits"
    consul.start()
    writable(consul)
    assert key(consul, desk)["Session"] == locked["Session"]
    assert (await desk.ask(wanted())).word == "granted"
    assert key(consul, desk)["Session"] == locked["Session"]


def test_without_the_setting_there_is_no_lock_and_a_wrong_one_is_refused():
    assert type(desk_of(Client, "")) is Desk
    for wrong in ("consul:8500/x", "http://consul:8500", "http://consul:8500/"):
        with pytest.raises(Refused, match="GUARDRAIL_LEASE_KV is ADDRESS/PREFIX"):
            desk_of(Client, "", wrong)


def test_a_worker_takes_the_setting(tmp_path, monkeypatch):
    monkeypatch.setenv("GUARDRAIL_LEASE_KV", "http://127.0.0.1:8500/guardrail/leases")
    monkeypatch.setenv("GUARDRAIL_LEASE_KV_TOKEN_FILE", "/run/secrets/consul")
    locks = Settings.read().lease_locks
    desk = Activities(Client, tmp_path, None, None, locks=locks).desk
    token = Secret("file", "/run/secrets/consul")
    assert desk.locks == ConsulLocks("http://127.0.0.1:8500", "guardrail/leases", "default", token)
