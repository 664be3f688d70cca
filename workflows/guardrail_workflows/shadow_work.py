"""What is done on one host where nothing is to be changed?

    look → permit → wait

The same look as in earnest, and the same permit just before it would begin; then the time that a
host is expected to take, in which it counts as away. No step of the change is run, and nothing is
written on the host. Every end is an outcome, as in host_work.
"""

import asyncio
import time

from guardrail.errors import Refused, Unanswered
from guardrail.ports import BadCredentials, Catalog, Permit, Probing, Unreachable
from guardrail_workflows.host_look import Look, Seen
from guardrail_workflows.host_work import Heartbeat, HostJob, HostResult

BEAT_EVERY = 1.0
NOTHING = "nothing was begun: this is a shadow"


async def shadow_host(
    job: HostJob,
    probing: Probing,
    *,
    catalog: Catalog | None,
    permit: Permit,
    heartbeat: Heartbeat,
    seconds: float,
) -> HostResult:
    """Look, ask, and wait so many seconds, at most the change's time limit."""
    heartbeat("look")
    look = Look(job.host, job.change, job.target, probing, catalog)
    try:
        async with asyncio.timeout(job.change.timeout):
            seen = await look.once()
    except TimeoutError:
        limit = f"not looked at within {job.change.timeout:g} s; {NOTHING}"
        return HostResult("unknown", limit, _facts(None))
    except Unreachable as silence:
        return HostResult("unknown", f"{silence}; {NOTHING}", _facts(None))
    except Unanswered as silence:
        return HostResult("blocked", f"{silence}; {NOTHING}", _facts(None))
    except (BadCredentials, Refused) as refusal:
        return HostResult("credentials", f"{refusal}; {NOTHING}", _facts(None))
    return await _as_if(job, seen, permit, heartbeat, min(seconds, job.change.timeout))


async def _as_if(
    job: HostJob, seen: Seen, permit: Permit, heartbeat: Heartbeat, seconds: float
) -> HostResult:
    facts = _facts(seen)
    if strange := _strange(job, seen):
        return HostResult("blocked", strange, facts)
    if job.direction == "forward" and seen.installed == seen.running == job.target:
        return HostResult("changed", f"{job.host.name} is at {job.target} already", facts)
    if not await permit():
        return HostResult("not_begun", "no permit", facts)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        heartbeat("wait")
        await asyncio.sleep(min(left, BEAT_EVERY))
    return HostResult("changed", f"{job.host.name} would be at {job.target}", facts)


def _strange(job: HostJob, seen: Seen) -> str:
    """What would keep the real change from touching this host."""
    for what, version in (("installed", seen.installed), ("running", seen.running)):
        if version not in (job.old, job.new, None):
            return f"{version} is {what}, neither {job.old} nor {job.new}; {NOTHING}"
    return ""


def _facts(seen: Seen | None) -> tuple[tuple[str, str], ...]:
    found = {"shadow": "yes"}
    if seen is not None:
        known = {"installed": seen.installed, "running": seen.running}
        found |= {name: version for name, version in known.items() if version is not None}
    return tuple(sorted(found.items()))
