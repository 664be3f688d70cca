"""When is an inventory from Consul refused, and what does it say of each host?"""

import time
from collections.abc import AsyncIterator

import pytest
from hands import own_address
from http_part import Answer, HttpPart, serving

from guardrail.edges import consul_api
from guardrail.edges.consul import ConsulCatalog, ConsulHosts, open_api, refuse_shrunken
from guardrail.edges.hostlist import ListedHosts
from guardrail.errors import Refused, Unanswered
from guardrail.model.common import Secret, Tls
from guardrail.model.fleet import ConsulInventory, FailureDomain, Fleet, Host, HostList

pytestmark = pytest.mark.real
SERVICE = "/v1/health/service/memcached"


def node(name: str, zone: str | None = "a") -> dict[str, object]:
    meta = {"zone": zone, "env": "lab"} if zone else {}
    return {"Node": name, "Address": f"10.0.0.{name[-1]}", "Datacenter": "dc1", "Meta": meta}


def instance(name: str, zone: str | None = "a", **critical: str) -> dict[str, object]:
    checks = [{"CheckID": "serfHealth", "Status": "passing", "Output": "alive"}]
    checks += [{"CheckID": c, "Status": "critical", "Output": said} for c, said in critical.items()]
    return {"Node": node(name, zone), "Service": {"Service": "memcached"}, "Checks": checks}


@pytest.fixture
async def consul() -> AsyncIterator[HttpPart]:
    async with serving(own_address()) as part:
        part.answers = {
            SERVICE: Answer([instance("c2", "b"), instance("c1")]),
            "/v1/catalog/nodes": Answer([node("c1"), node("c2", "b"), node("other3")]),
            "/v1/catalog/services": Answer({"memcached": [], "web": ["x"], "consul": []}),
            "/v1/catalog/service/memcached": Answer([{"Node": "c1"}, {"Node": "c2"}]),
            "/v1/catalog/service/web": Answer([{"Node": "c2"}, {"Node": "other3"}]),
            "/v1/catalog/service/consul": Answer([]),
        }
        yield part


def fleet(address: str, **changes: object) -> Fleet:
    source = ConsulInventory(address, "memcached", **changes)  # type: ignore[arg-type]
    return Fleet("cache", source, FailureDomain(node_meta="zone"))


async def hosts(part: HttpPart, **changes: object) -> tuple[Host, ...]:
    return await ConsulHosts().hosts(fleet(part.url, **changes))


# ---------------------------------------------------------------- what is said of hosts


async def test_hosts_come_sorted_with_domain_roles_and_labels(consul: HttpPart) -> None:
    first, second = await hosts(consul)
    assert first == Host(
        inventory="consul/dc1",
        name="c1",
        address="10.0.0.1",
        failure_domain="a",
        roles=("memcached",),
        labels=(("env", "lab"), ("zone", "a")),
    )
    assert (second.name, second.failure_domain, second.roles) == ("c2", "b", ("memcached", "web"))


async def test_a_critical_check_marks_the_host_down_with_the_reason(consul: HttpPart) -> None:
    bad = instance("c1", serfHealth="Agent not live or unreachable", tcp="connection\nrefused")
    consul.answers[SERVICE] = Answer([bad, instance("c2")])
    first, second = await hosts(consul)
    assert first.down
    assert "serfHealth is critical: Agent not live or unreachable" in first.down_reason
    assert "tcp is critical: connection refused" in first.down_reason
    assert not second.down


async def test_a_host_without_the_domain_key_is_in_the_unknown_domain(consul: HttpPart) -> None:
    consul.answers[SERVICE] = Answer([instance("c1", None)])
    assert [host.failure_domain for host in await hosts(consul)] == ["unknown"]


async def test_two_instances_on_one_node_are_one_host(consul: HttpPart) -> None:
    consul.answers[SERVICE] = Answer([instance("c1"), instance("c1", tcp="no")])
    (only,) = await hosts(consul)
    assert only.down


async def test_a_filter_chooses_among_nodes(consul: HttpPart) -> None:
    consul.answers["/v1/catalog/nodes"] = Answer([node("c2"), node("other3")])
    assert [host.name for host in await hosts(consul, filter='Meta.env == "lab"')] == ["c2"]


async def test_the_scope_and_the_token_go_with_every_request(
    consul: HttpPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONSUL_SECRET", "s3cret\n")
    await hosts(
        consul,
        filter="x",
        datacenter="dc2",
        namespace="n",
        partition="p",
        node_meta=(("env", "lab"),),
        token=Secret("env", "CONSUL_SECRET"),
    )
    assert len(consul.asked) == 6
    for asked in consul.asked:
        assert (asked.query["dc"], asked.query["ns"]) == (["dc2"], ["n"])
        assert asked.query["partition"] == ["p"]
        assert asked.headers["x-consul-token"] == "s3cret"
    metas = {asked.path for asked in consul.asked if "node-meta" in asked.query}
    assert metas == {SERVICE, "/v1/catalog/nodes"}


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("path", [SERVICE, "/v1/catalog/nodes", "/v1/catalog/service/web"])
async def test_an_answer_filtered_by_acls_is_refused(consul: HttpPart, path: str) -> None:
    consul.answers[path].headers["X-Consul-Results-Filtered-By-ACLs"] = "true"
    with pytest.raises(Refused, match="hides part of"):
        await hosts(consul, filter="x")


async def test_an_unfiltered_answer_that_says_so_is_taken(consul: HttpPart) -> None:
    consul.answers[SERVICE].headers["X-Consul-Results-Filtered-By-ACLs"] = "false"
    assert len(await hosts(consul)) == 2


@pytest.mark.parametrize("body", [[], None])
async def test_an_empty_answer_is_refused(consul: HttpPart, body: object) -> None:
    consul.answers[SERVICE] = Answer(body)
    with pytest.raises(Refused, match="lists no host for service memcached"):
        await hosts(consul)


async def test_a_filter_that_leaves_nobody_is_refused(consul: HttpPart) -> None:
    consul.answers["/v1/catalog/nodes"] = Answer([])
    with pytest.raises(Refused, match="filter Meta"):
        await hosts(consul, filter="Meta.env == nowhere")


async def test_a_filter_that_consul_does_not_take_is_refused(consul: HttpPart) -> None:
    text = 'Failed to create boolean expression evaluator: Selector "Foo" is not valid'
    consul.answers["/v1/catalog/nodes"] = Answer(text, 500)
    with pytest.raises(Refused, match='Selector "Foo"'):
        await hosts(consul, filter="Foo == 1")


async def test_a_shrunken_inventory_is_refused_and_names_who_is_missing(consul: HttpPart) -> None:
    found = await hosts(consul)
    refuse_shrunken(["c1"], found)
    with pytest.raises(Refused, match=r"lost 1 hosts since the plan: c3"):
        refuse_shrunken(["c1", "c3"], found)


# ---------------------------------------------------------------- silence


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer("rpc error getting client: failed\nto get conn", 500), "HTTP 500: rpc error"),
        (Answer("Permission denied", 403), "HTTP 403: Permission denied"),
        (Answer("gone", 404), "HTTP 404"),
        (Answer("<html>login</html>"), "not JSON"),
        (Answer({"a": 1}), "where a list was due"),
        (Answer([1, 2]), "where a list was due"),
        (Answer([{"Service": {}}]), "without its usual fields"),
        (Answer([], headers={"X-Consul-Knownleader": "false"}), "no leader"),
        (Answer([], 302, {"Location": "http://127.0.0.1:1/"}), "HTTP 302"),
        (Answer(silent=True), "nothing came within 0.3 s"),
    ],
)
async def test_no_usable_answer_is_one_line_with_address_and_reason(
    consul: HttpPart, answer: Answer, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consul_api, "LIMIT", 0.3)
    consul.answers[SERVICE] = answer
    began = time.monotonic()
    with pytest.raises(Unanswered) as caught:
        await hosts(consul)
    assert time.monotonic() - began < 3
    assert reason in str(caught.value)
    assert consul.url in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://127.0.0.9:1", "http://[", "nonsense", "ftp://x"])
async def test_nobody_at_the_address_is_unanswered(address: str) -> None:
    with pytest.raises(Unanswered, match="Consul at"):
        await ConsulHosts().hosts(fleet(address))


async def test_plain_http_is_not_taken_for_tls(
    consul: HttpPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consul_api, "LIMIT", 0.3)
    with pytest.raises(Unanswered):
        await ConsulHosts().hosts(fleet(consul.url.replace("http:", "https:")))


async def test_tls_files_that_cannot_be_used_are_refused(consul: HttpPart) -> None:
    with pytest.raises(Refused, match="TLS files /nowhere"):
        await hosts(consul, tls=Tls(ca_file="/nowhere"))


# ---------------------------------------------------------------- the list in the document


async def test_listed_hosts_come_sorted() -> None:
    listed = tuple(Host("fleet", name, "10.0.0.1", "a") for name in ("b", "a"))
    found = await ListedHosts().hosts(Fleet("f", HostList(listed)))
    assert [host.name for host in found] == ["a", "b"]


@pytest.mark.parametrize("names", [(), ("a", "a")])
async def test_a_list_that_is_empty_or_has_twins_is_refused(names: tuple[str, ...]) -> None:
    listed = tuple(Host("fleet", name, "10.0.0.1", "a") for name in names)
    with pytest.raises(Refused):
        await ListedHosts().hosts(Fleet("f", HostList(listed)))


async def test_an_inventory_of_another_kind_is_refused() -> None:
    with pytest.raises(Refused):
        await ConsulHosts().hosts(Fleet("f", HostList(())))
    with pytest.raises(Refused):
        await ListedHosts().hosts(fleet("http://127.0.0.1:1"))


# ---------------------------------------------------------------- one node


@pytest.fixture
async def catalog(consul: HttpPart) -> AsyncIterator[ConsulCatalog]:
    consul.answers |= {
        "/v1/catalog/node/c1": Answer(
            {"Node": node("c1"), "Services": {"m": {"Service": "memcached"}}}
        ),
        "/v1/health/node/c1": Answer([{"CheckID": "tcp", "Status": "passing"}]),
        "/v1/catalog/node/c9": Answer(None),
        "/v1/health/node/c9": Answer([]),
        "/v1/agent/members": Answer([member("c1", 1), member("c9", 3)]),
    }
    found = ConsulCatalog(open_api(ConsulInventory(consul.url, "memcached")))
    yield found
    await found.close()


def member(name: str, status: int, build: str = "1.8.8:") -> dict[str, object]:
    return {"Name": name, "Status": status, "Tags": {"build": build}}


async def test_a_node_as_its_servers_see_it(catalog: ConsulCatalog) -> None:
    entry = await catalog.entry("c1")
    assert entry is not None
    assert (entry.version, entry.alive, entry.services) == ("1.8.8", True, ("memcached",))
    assert entry.failing == ()
    assert await catalog.entry("c9") is None


@pytest.mark.parametrize(
    ("members", "checks", "alive"),
    [
        ([("c1", 4)], [], False),
        ([("c1", 3)], [], False),
        ([], [], False),
        ([("c1", 1)], ["serfHealth"], False),
        ([("c1", 1)], ["tcp"], True),
        ([("c1", 1), ("c1", 3)], [], True),
        ([("c1", 3), ("c1", 1)], [], True),
    ],
)
async def test_alive_is_what_gossip_and_servers_say(
    catalog: ConsulCatalog,
    consul: HttpPart,
    members: list[tuple[str, int]],
    checks: list[str],
    alive: bool,
) -> None:
    consul.answers["/v1/agent/members"] = Answer([member(*one) for one in members])
    failing = [{"CheckID": check, "Status": "critical"} for check in checks]
    consul.answers["/v1/health/node/c1"] = Answer(failing)
    entry = await catalog.entry("c1")
    assert entry is not None
    assert entry.alive is alive
    assert entry.failing == tuple(checks)


async def test_hosts_verified_together_share_one_list_of_members(
    catalog: ConsulCatalog, consul: HttpPart
) -> None:
    for _ in range(5):
        await catalog.entry("c1")
    assert len([a for a in consul.asked if a.path == "/v1/agent/members"]) <= 2


async def test_a_silent_server_is_unanswered(catalog: ConsulCatalog, consul: HttpPart) -> None:
    consul.answers["/v1/agent/members"] = Answer("rpc error", 500)
    with pytest.raises(Unanswered):
        await catalog.entry("c1")
