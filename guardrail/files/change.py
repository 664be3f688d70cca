"""How is a `Change` written?

    apiVersion: guardrail/v1
    kind: Change
    metadata: {name: consul-agent, description: the Consul client agent of a host}
    spec:
      agent: consul                     # one agent, one lock on the host
      driver: ssh                       # or exec: every command runs on the worker's machine
      installed: {run: [consul, version], match: 'Consul v(\\S+)'}   # or {http: …}
      running: {consulAgent: {port: 8500, scheme: http}}
      # or:    {run: [agent, --version], match: 'v(\\S+)'}
      # or:    {http: {port: 9100, path: /metrics, match: 'version="([^"]+)"'}}
      obtainable: [fetch, --can, consul, "{version}"]   # 0: it can be brought here; changes nothing
      prepare: [[fetch, consul, "{to}"]]           # harmless; before the point of no return
      unprepare: [[remove, consul, "{to}"]]        # undoes prepare where apply was never begun
      apply: [[switch, consul, "{to}"], [restart, consul]]
      undo: same                        # apply with from and to exchanged; or steps of its own
      verify: {consulCatalog: {within: 30s}}
      keepsRegistered: false            # true: these steps leave the node in Consul's catalog
      timeout: 5m                       # for all of it on one host

Commands are lists of arguments and no shell reads them. `{from}`, `{to}`, `{version}` (the
version that is being brought: `to` going forward, `from` going back) and `{host}` are filled in.

`obtainable` is asked on every host before a plan may start, for either version: without the new
one nothing can begin, without the old one there is no way back. It must ask where versions come
from (a repository), not what is on the host now: what is installed goes with the upgrade.

`unprepare` is run going forward only, where a step of `prepare` failed or the host refused to
begin (`blocked`). It is best effort and may be run more than once; what it did is said in the
host's reason. Going back nothing is unprepared: it would throw away the former version.
"""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    WithJsonSchema,
    model_validator,
)

from guardrail.files.place import Place
from guardrail.files.values import (
    DescribedMetadata,
    DurationAboveZero,
    Format,
    Name,
    Pattern,
    Port,
    exactly_one,
    not_yet,
    shown,
    wrong,
)
from guardrail.model.change import (
    Change,
    Command,
    ConsulAgentProbe,
    ConsulCatalogCheck,
    HttpProbe,
    Probe,
    RunProbe,
)

PLACEHOLDERS = ("from", "to", "version", "host")
ASKING = ("version", "host")
"""The placeholders of `obtainable`, which is asked for either version."""


def _argument(value: str) -> str:
    for word in re.findall(r"\{(\w+)\}", value):
        if word not in PLACEHOLDERS:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise ValueError(
                f"`{{{word}}}` is no placeholder; known: {known}. No shell reads a command, so "
                "variables are not filled in; a brace that is meant as such needs a blank after it"
            )
    return value


def _command(value: list[str]) -> list[str]:
    if not value[0].strip():
        raise ValueError("the first word of a command is the program, and must not be empty")
    return value


def _path(value: str) -> str:
    if not re.fullmatch(r"/[!-~]*", value):
        raise ValueError(f"a path such as /metrics is needed, found {shown(value)}")
    return value


def _same_is_none(value: Any) -> Any:
    if isinstance(value, str):
        if value == "same":
            return None
        raise ValueError(f"`same` or a list of commands is needed, found `{value[:40]}`")
    return value


def _asks(value: list[str]) -> list[str]:
    words = {word for part in value for word in re.findall(r"\{(\w+)\}", part)}
    if strange := sorted(words - set(ASKING)):
        raise ValueError(
            f"`{{{strange[0]}}}` has no meaning in `obtainable`, which is asked for the old "
            "version and for the new one: write `{version}`"
        )
    if "version" not in words:
        raise ValueError("`obtainable` must say which version it asks for: give it `{version}`")
    return value


Argument = Annotated[str, AfterValidator(_argument)]
HttpPath = Annotated[
    str, AfterValidator(_path), WithJsonSchema({"type": "string", "pattern": "^/"})
]
CommandFormat = Annotated[list[Argument], Field(min_length=1), AfterValidator(_command)]
AskingFormat = Annotated[CommandFormat, AfterValidator(_asks)]
_STEPS = {"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 1}}
Undo = Annotated[
    Annotated[list[CommandFormat], Field(min_length=1)] | None,
    BeforeValidator(_same_is_none),
    WithJsonSchema({"anyOf": [{"const": "same"}, _STEPS]}),
]


def _one_way(*keys: str) -> ConfigDict:
    """For the schema: `run` with `match`, or exactly one of the other keys."""
    ways: list[JsonValue] = [{"required": [key], "maxProperties": 1} for key in keys]
    return ConfigDict(json_schema_extra={"oneOf": [{"required": ["run", "match"]}, *ways]})


class HttpFormat(Format):
    """Fetch http://<host address>:<port><path>; the group of `match` is the version."""

    port: Port
    path: HttpPath
    match: Pattern


class ConsulAgentFormat(Format):
    """Ask the Consul agent on the host itself."""

    port: Port = 8500
    scheme: Literal["http", "https"] = "http"


class InstalledFormat(Format):
    """How the installed version is read: `run` with `match`, or `http`."""

    model_config = _one_way("http")

    run: CommandFormat | None = None
    match: Pattern | None = Field(default=None, description="Its one group is the version.")
    http: HttpFormat | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        exactly_one(self, "run", "http")
        _match_with_run(self.run, self.match)
        return self


class RunningFormat(Format):
    """How the live process is asked: `consulAgent`, `http`, or `run` with `match`."""

    model_config = _one_way("http", "consulAgent")

    run: CommandFormat | None = None
    match: Pattern | None = Field(default=None, description="Its one group is the version.")
    http: HttpFormat | None = None
    consul_agent: ConsulAgentFormat | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        exactly_one(self, "consulAgent", "http", "run")
        _match_with_run(self.run, self.match)
        return self


class CatalogFormat(Format):
    """The servers' catalog must show the node alive and at the version within this time."""

    within: DurationAboveZero


class VerifyFormat(Format):
    """What others must say after the change."""

    consul_catalog: CatalogFormat | None = None


class SpecFormat(Format):
    """How an agent goes from one version to another on a host, and back."""

    agent: Name = Field(description="The software that changes; it names the lock on the host.")
    driver: Annotated[Literal["ssh", "exec"], not_yet("kubernetes")]
    installed: InstalledFormat
    running: RunningFormat
    obtainable: AskingFormat | None = Field(
        default=None,
        description="One command; 0: {version} can be brought to this host. Changes nothing.",
    )
    prepare: list[CommandFormat] = Field(default=[], description="Harmless steps, first.")
    unprepare: list[CommandFormat] = Field(
        default=[], description="Undoes `prepare` where `apply` was never begun; best effort."
    )
    apply: list[CommandFormat] = Field(min_length=1, description="The change itself, once.")
    undo: Undo = Field(description="`same`, or steps that bring back the former version.")
    verify: VerifyFormat | None = None
    keeps_registered: bool = Field(
        default=False,
        description="The steps leave the node in Consul's catalog, whatever a SIGTERM would do.",
    )
    timeout: DurationAboveZero = Field(description="For all of it on one host.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        catalog = self.verify.consul_catalog if self.verify else None
        if catalog is not None and catalog.within >= self.timeout:
            at = ("verify", "consulCatalog", "within")
            raise wrong((at, f"must be less than `timeout` ({self.timeout:g} s)"))
        if self.unprepare and not self.prepare:
            raise wrong((("unprepare",), "there is no `prepare` that it could undo"))
        return self


class ChangeFormat(Format):
    """How an agent goes from one version to another on a host, and back."""

    api_version: Literal["guardrail/v1"]
    kind: Literal["Change"]
    metadata: DescribedMetadata
    spec: SpecFormat


def _match_with_run(run: list[str] | None, match: str | None) -> None:
    if run is not None and match is None:
        raise wrong(((), "`run` needs `match`, a regular expression around the version"))
    if run is None and match is not None:
        raise wrong((("match",), "`match` here belongs to `run`; within `http` it has its own"))


def to_change(written: ChangeFormat, place: Place) -> Change:
    """The model of a document that was found valid."""
    spec = written.spec
    catalog = spec.verify.consul_catalog if spec.verify else None
    return Change(
        name=written.metadata.name,
        agent=spec.agent,
        driver=spec.driver,
        installed=_run_or_http(spec.installed),
        running=_running(spec.running),
        prepare=_commands(spec.prepare),
        apply=_commands(spec.apply),
        undo=None if spec.undo is None else _commands(spec.undo),
        verify_catalog=None if catalog is None else ConsulCatalogCheck(catalog.within),
        timeout=spec.timeout,
        digest=place.digest(),
        description=written.metadata.description,
        keeps_registered=spec.keeps_registered,
        unprepare=_commands(spec.unprepare),
        obtainable=None if spec.obtainable is None else tuple(spec.obtainable),
    )


def _commands(written: list[list[str]]) -> tuple[Command, ...]:
    return tuple(tuple(command) for command in written)


def _running(written: RunningFormat) -> Probe:
    if written.consul_agent is not None:
        return ConsulAgentProbe(written.consul_agent.port, written.consul_agent.scheme)
    return _run_or_http(written)


def _run_or_http(written: InstalledFormat | RunningFormat) -> RunProbe | HttpProbe:
    if written.http is not None:
        return HttpProbe(written.http.port, written.http.path, written.http.match)
    return RunProbe(tuple(written.run or ()), written.match or "")
