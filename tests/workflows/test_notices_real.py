"""A real worker with a Channel document: a paused rollout on real hosts is told by mail."""

import asyncio
import contextlib
import time
import uuid

import pytest
from crash.fleet import HostFleet
from real_worker import parts, worker
from receivers import mail_box

from guardrail.decide.chain import check
from guardrail.edges.journal import journal_at
from guardrail.errors import Refused
from guardrail.model.board import NOTICES_ID
from guardrail.model.journal import Ended, NoticeGiven
from guardrail.model.messages import Say

pytestmark = pytest.mark.temporal
CHANNELS = """
apiVersion: guardrail/v1
kind: Channel
metadata: {name: pager}
spec: {address: {env: A_PAGER_THAT_IS_NOT_THERE}, otherwise: duty-mail}
---
apiVersion: guardrail/v1
kind: Channel
metadata: {name: duty-mail}
spec: {address: {file: duty-mail.url}, tells: [finish], tries: 2}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with parts(tmp_path_factory.mktemp("notices")) as found:
        yield found


def told(made, name):
    """What the journal says of messages, and whether it ended; it is sound."""
    with contextlib.suppress(Refused):
        checked = check(journal_at(made.journal).read(name), name)
        assert checked.broken is None
        return [one.record for one in checked.lines if isinstance(one.record, NoticeGiven | Ended)]
    return []


async def until(what, limit=30.0):
    end = time.monotonic() + limit
    while not what():
        assert time.monotonic() < end, "it did not come about in time"
        await asyncio.sleep(0.05)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_hold_and_the_end_are_told_by_mail_and_kept_in_the_journal(server, made):
    fleet = HostFleet("told", made.hosts, 6, takes=0.6, staging=0.0)
    with mail_box() as box:
        (made.folder / "source" / "channels.yaml").write_text(CHANNELS)
        (made.folder / "source" / "duty-mail.url").write_text(box.url())
        async with worker(server.client, made) as here:
            await here.operations.start(here.request(fleet))
            await here.until("told", lambda s: s.changed >= 1)
            say = Say(uuid.uuid4().hex, "pause", "bea", "a look around", at=time.time())
            await here.operations.say("told", say)
            await until(lambda: box.mails)
            assert box.mails[0].subject == "guardrail: told is held on operator:bea"
            assert "a look around" in box.mails[0].text
            assert box.mails[0].text.strip().splitlines()[-1] == "guardrail rollout resume told"
            again = Say(uuid.uuid4().hex, "resume", "bea", at=time.time())
            await here.operations.say("told", again)
            end = await here.until("told", lambda s: s.finished_at is not None)
            assert (end.phase, end.changed) == ("completed", fleet.count)
            await until(lambda: len(box.mails) == 2)
            assert box.mails[1].subject == "guardrail: told has completed"
            await until(lambda: len(told(made, "told")) == 5)
        await server.client.get_workflow_handle(NOTICES_ID).terminate()
    first = told(made, "told")[0]
    assert first.why.startswith("environment variable A_PAGER_THAT_IS_NOT_THERE is not set")
    sent = [(one.channel, one.sent) for one in told(made, "told") if isinstance(one, NoticeGiven)]
    hold = [("pager", False), ("duty-mail", True)]
    assert sent == [*hold, ("duty-mail", True), ("pager", False)]
