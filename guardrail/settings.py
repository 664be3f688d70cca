"""Where is everything on this machine, and who is asking?

Read from the environment (`GUARDRAIL_*`) at entry points only: a command line or a worker makes
one `Settings` and hands on what others need. How Temporal is reached is not here: that is
Temporal's own environment configuration (`TEMPORAL_ADDRESS`, profiles, TLS; edges/temporal.py).
"""

import getpass
import os
from pathlib import Path

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from guardrail.errors import Refused

PREFIX = "GUARDRAIL_"


def _state_home() -> Path:
    """The XDG state folder; a relative XDG_STATE_HOME is to be ignored (XDG base directories)."""
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".local" / "state") / "guardrail"


class Settings(BaseSettings):
    """What the environment says; fields are read from GUARDRAIL_STATE, GUARDRAIL_SOURCE, ...

    state: the folder for databases, plans and logs. source: the worker's folder of policies,
    changes, gates and sources; None is the shipped one. store: an fsspec URL for plans; empty is
    the folder `plans` of `state`. journal: the same for the journal, folder `journal`. user: who
    acts, recorded as unverified; empty is the login name. allowed_signers: the worker's file of
    keys whose signatures count (ssh-keygen(1)); None is `allowed_signers` in its source.
    freeze_file, freeze_url, freeze_kv: where a freeze can be set besides by command
    (edges/freezes.py); freeze_kv_token_file: the token for the last; freeze_timezone: the zone of
    times without one, in calendars that are read there. lease_kv: where leases are
    locks in Consul, too (edges/lease_lock.py); lease_kv_token_file: the token for that.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, env_ignore_empty=True)

    state: Path = Field(default_factory=_state_home)
    source: Path | None = None
    store: str = ""
    journal: str = ""
    user: str = ""
    allowed_signers: Path | None = None
    freeze_file: Path | None = None
    freeze_url: str = ""
    freeze_kv: str = ""
    freeze_kv_token_file: Path | None = None
    freeze_timezone: str = ""
    lease_kv: str = ""
    lease_kv_token_file: Path | None = None

    @field_validator(
        "state",
        "source",
        "allowed_signers",
        "freeze_file",
        "freeze_kv_token_file",
        "lease_kv_token_file",
    )
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        """A relative folder would be another one for the worker than for the command line."""
        try:
            return None if value is None else value.expanduser().absolute()
        except RuntimeError as error:  # ~nobody
            raise ValueError(str(error)) from None

    @classmethod
    def read(cls) -> "Settings":
        """The settings of this process. Raises Refused, naming the variable that is wrong."""
        try:
            return cls()
        except ValidationError as error:
            wrong = [_told(details["loc"], details["msg"]) for details in error.errors()]
            raise Refused(*wrong) from None

    @property
    def plans(self) -> str:
        """The URL of the plan store."""
        return self.store or f"file://{self.state / 'plans'}"

    @property
    def journals(self) -> str:
        """The URL of the journal, which outlives everything else."""
        return self.journal or f"file://{self.state / 'journal'}"

    @property
    def freeze_places(self) -> tuple[Path | None, str, str, Path | None]:
        """Where a freeze can be set, as `edges.freezes.places_of` takes it."""
        return self.freeze_file, self.freeze_url, self.freeze_kv, self.freeze_kv_token_file

    @property
    def lease_locks(self) -> tuple[str, Path | None]:
        """Where leases are locks, too, as `edges.lease_lock.desk_of` takes it."""
        return self.lease_kv, self.lease_kv_token_file

    @property
    def logs(self) -> Path:
        """The folder of the log files."""
        return self.state / "logs"

    @property
    def identity(self) -> str:
        """Who acts: GUARDRAIL_USER, else the login name; empty when neither is known."""
        if self.user:
            return self.user
        try:
            return getpass.getuser()
        except (OSError, KeyError):  # no login name and no entry for this uid: containers
            return ""


def _told(location: tuple[int | str, ...], message: str) -> str:
    variable = PREFIX + "_".join(str(part) for part in location).upper()
    return f"the environment variable {variable} cannot be used: {message}"
