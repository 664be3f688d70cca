"""How is a `Fleet` written?

apiVersion: guardrail/v1
kind: Fleet
metadata: {name: cache, description: memcached hosts of the lab}
spec:
  inventory:                       # one of consul, hosts
    consul:
      address: http://127.0.20.1:8500
      service: memcached           # hosts are the nodes of this service
      filter: 'Meta.env == "lab"'
      datacenter: dc1
      namespace: default           # Consul Enterprise
      partition: default           # Consul Enterprise
      nodeMeta: {env: lab}
      ring: ring/memcached         # key with {"slots": [node or null, ...], "spares": [node, ...]}
      token: {file: /run/secrets/consul}
      tls: {caFile: ca.pem, certificateFile: me.pem, keyFile: me.key, serverName: consul}
    # hosts:
    #   - {name: cache-001, address: 127.0.20.10, failureDomain: a, roles: [memcached],
    #      labels: {os: debian12}}
  failureDomain: {nodeMeta: zone}  # or {label: rack}
  reach:
    ssh:
      user: deploy
      port: 2222
      identity: {file: ssh/id_ed25519}
      certificate: {file: ssh/id_ed25519-cert.pub}
      knownHosts: {file: ssh/known_hosts}
      jump: bastion.example
      config: ~/.ssh/config
"""

from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from guardrail.files.place import Place
from guardrail.files.values import (
    Address,
    DescribedMetadata,
    Format,
    Port,
    SecretFormat,
    Text,
    TlsFormat,
    exactly_one,
    wrong,
)
from guardrail.model.fleet import (
    ConsulInventory,
    FailureDomain,
    Fleet,
    Host,
    HostList,
    Reach,
    SshReach,
)

_ONE_KEY = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})


class ConsulFormat(Format):
    """Hosts are the nodes of one service in Consul's catalog, as its servers see it."""

    address: Address = Field(description="A Consul server's (or agent's) HTTP address.")
    service: Text = Field(description="The nodes of this service are the hosts.")
    filter: Text | None = Field(default=None, description="A filter expression of Consul's.")
    datacenter: Text | None = None
    namespace: Text | None = Field(default=None, description="Consul Enterprise only.")
    partition: Text | None = Field(default=None, description="Consul Enterprise only.")
    node_meta: dict[str, str] = Field(default={}, description="Node meta that hosts must have.")
    ring: Text | None = Field(
        default=None,
        description="The key that says which node serves which slot of the tier's ring.",
    )
    token: SecretFormat | None = Field(default=None, description="An ACL token that may read.")
    tls: TlsFormat | None = None


class HostFormat(Format):
    """One host of a list."""

    name: Text
    address: Text = Field(description="Name or IP address under which the host is reached.")
    failure_domain: Text | None = Field(
        default=None, description="Hosts of one domain can fail together (zone, rack)."
    )
    roles: list[Text] = Field(default=[], description="What the host serves, e.g. memcached.")
    labels: dict[str, str] = Field(default={}, description="Further facts about the host.")


class InventoryFormat(Format):
    """Where the hosts are found: one of `consul` and `hosts`."""

    model_config = _ONE_KEY

    consul: ConsulFormat | None = None
    hosts: list[HostFormat] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        exactly_one(self, "consul", "hosts")
        seen: set[str] = set()
        faults = []
        for n, host in enumerate(self.hosts or ()):
            if host.name in seen:
                faults.append((("hosts", n, "name"), f"the host `{host.name}` is listed twice"))
            seen.add(host.name)
        if faults:
            raise wrong(*faults)
        return self


class FailureDomainFormat(Format):
    """Where a host's failure domain is read: a node meta key of Consul's, or a label."""

    model_config = _ONE_KEY

    node_meta: Text | None = None
    label: Text | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        exactly_one(self, "nodeMeta", "label")
        return self


class SshFormat(Format):
    """How the `ssh` driver reaches a host. Host keys are always checked."""

    user: Text | None = None
    port: Port | None = None
    identity: SecretFormat | None = Field(default=None, description="The private key.")
    certificate: SecretFormat | None = Field(default=None, description="The key's certificate.")
    known_hosts: SecretFormat | None = Field(
        default=None, description="Host keys; the user's own file when not given."
    )
    jump: Text | None = Field(default=None, description="Jump host, [user@]host[:port].")
    config: Text | None = Field(default=None, description="An OpenSSH configuration file.")


class ReachFormat(Format):
    """The ways to reach the hosts; a driver takes the part it needs."""

    ssh: SshFormat | None = None


class SpecFormat(Format):
    """Which hosts, and how they are reached."""

    inventory: InventoryFormat
    failure_domain: FailureDomainFormat | None = None
    reach: ReachFormat | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.inventory.hosts is None:
            return self
        if self.failure_domain is not None and self.failure_domain.node_meta is not None:
            raise wrong((("failureDomain",), "listed hosts have no node meta; use {label: KEY}"))
        advice = "give it `failureDomain`, or the label that spec.failureDomain names"
        faults = [
            (("inventory", "hosts", n), f"`{host.name}` has no known failure domain; {advice}")
            for n, host in enumerate(self.inventory.hosts)
            if _domain(host, self.failure_domain) is None
        ]
        if faults:
            raise wrong(*faults)
        return self


class FleetFormat(Format):
    """The hosts that one operation may touch."""

    api_version: Literal["guardrail/v1"]
    kind: Literal["Fleet"]
    metadata: DescribedMetadata
    spec: SpecFormat


def to_fleet(written: FleetFormat, place: Place) -> Fleet:
    """The model of a document that was found valid."""
    spec = written.spec
    domain = spec.failure_domain
    return Fleet(
        name=written.metadata.name,
        inventory=_inventory(written, place),
        failure_domain=FailureDomain(domain.node_meta, domain.label) if domain else FailureDomain(),
        reach=_reach(spec.reach, place),
        description=written.metadata.description,
    )


def _domain(host: HostFormat, domain: FailureDomainFormat | None) -> str | None:
    labelled = host.labels.get(domain.label) if domain and domain.label else None
    return host.failure_domain or labelled or None


def _inventory(written: FleetFormat, place: Place) -> ConsulInventory | HostList:
    consul = written.spec.inventory.consul
    if consul is None:
        return HostList(tuple(_host(host, written) for host in written.spec.inventory.hosts or ()))
    return ConsulInventory(
        address=consul.address,
        service=consul.service,
        filter=consul.filter,
        datacenter=consul.datacenter,
        namespace=consul.namespace,
        partition=consul.partition,
        node_meta=tuple(consul.node_meta.items()),
        token=place.secret(consul.token),
        tls=place.tls(consul.tls),
        ring=consul.ring,
    )


def _host(host: HostFormat, written: FleetFormat) -> Host:
    return Host(
        inventory=written.metadata.name,
        name=host.name,
        address=host.address,
        failure_domain=_domain(host, written.spec.failure_domain) or "",
        roles=tuple(host.roles),
        labels=tuple(host.labels.items()),
    )


def _reach(reach: ReachFormat | None, place: Place) -> Reach:
    if reach is None or reach.ssh is None:
        return Reach()
    ssh = reach.ssh
    return Reach(
        SshReach(
            user=ssh.user,
            port=ssh.port,
            identity=place.secret(ssh.identity),
            certificate=place.secret(ssh.certificate),
            known_hosts=place.secret(ssh.known_hosts),
            jump=ssh.jump,
            config=place.optional_path(ssh.config),
        )
    )
