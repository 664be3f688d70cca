"""What must hold of every driver, whatever becomes of connections and processes?"""

import asyncio
import os
import signal
from dataclasses import replace

import pytest
from hands import Hands, no, until, yes

from guardrail.errors import Refused
from guardrail.model.change import Command
from guardrail.ports import StepRequest, StepResult, Token, Unreachable

pytestmark = pytest.mark.real


def request(hands: Hands, *steps: Command, turn: int = 1, attempt: int = 1) -> StepRequest:
    return StepRequest(
        operation="op-1",
        agent=hands.host.name,
        direction="forward",
        token=Token(0, turn, attempt),
        steps=steps,
        limit=20.0,
    )


async def apply(hands: Hands, asked: StepRequest) -> StepResult:
    return await hands.driver.apply(hands.host, asked, yes)


# ---------------------------------------------------------------- running once


async def test_steps_run_in_order_and_the_last_one_is_told(hands: Hands) -> None:
    steps = (hands.adding("a", "echo one"), hands.adding("a", "echo two; echo err >&2; exit 3"))
    result = await apply(hands, request(hands, *steps, hands.adding("b")))
    assert result == StepResult("done", exit_status=3, output="two\nerr\n")
    assert hands.lines("a") == ["ran", "ran"]
    assert hands.lines("b") == []


async def test_a_second_attempt_reads_and_does_not_run(hands: Hands) -> None:
    step = hands.adding("a", "echo said")
    first = await apply(hands, request(hands, step))
    for attempt in (1, 2):
        again = await apply(hands, request(hands, step, attempt=attempt))
        assert again == first == StepResult("done", exit_status=0, output="said\n")
    assert hands.lines("a") == ["ran"]


async def test_a_new_turn_runs_again(hands: Hands) -> None:
    for turn in (1, 2):
        assert (await apply(hands, request(hands, hands.adding("a"), turn=turn))).kind == "done"
    assert hands.lines("a") == ["ran", "ran"]


async def test_back_and_forward_are_runs_of_their_own(hands: Hands) -> None:
    asked = request(hands, hands.adding("a"))
    await apply(hands, asked)
    await apply(hands, replace(asked, direction="back", token=Token(0, 2, 1)))
    assert hands.lines("a") == ["ran", "ran"]


async def test_two_attempts_at_once_make_one_run(hands: Hands) -> None:
    step = hands.adding("a", "sleep 0.5", "echo said")
    results = await asyncio.gather(
        apply(hands, request(hands, step, attempt=1)), apply(hands, request(hands, step, attempt=2))
    )
    assert hands.lines("a") == ["ran"]
    assert results[1] == StepResult("done", exit_status=0, output="said\n")
    assert results[0].kind in ("done", "refused")


async def test_twenty_attempts_at_once_make_one_run(hands: Hands) -> None:
    step = hands.adding("a", "sleep 0.3", "echo said")
    drivers = [hands.another() for _ in range(4)]
    tries = [
        drivers[n % 4].apply(hands.host, request(hands, step, attempt=n + 1), yes)
        for n in range(20)
    ]
    results = await asyncio.gather(*tries)
    assert hands.lines("a") == ["ran"]
    assert {result.kind for result in results} <= {"done", "refused", "not_begun"}
    assert results[-1].output == "said\n"
    assert (await apply(hands, request(hands, step, attempt=21))).output == "said\n"
    assert hands.lines("a") == ["ran"]


# ---------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    ("stored", "late"),
    [
        (Token(0, 1, 2), Token(0, 1, 1)),
        (Token(0, 2, 1), Token(0, 1, 9)),
        (Token(7, 1, 1), Token(6, 9, 9)),
        (Token(10, 1, 1), Token(9, 1, 1)),
    ],
)
async def test_a_lower_token_is_refused(hands: Hands, stored: Token, late: Token) -> None:
    asked = request(hands, hands.adding("a"))
    await apply(hands, replace(asked, token=stored))
    result = await apply(hands, replace(asked, token=late, direction="back"))
    assert result.kind == "refused"
    assert f"lease {stored.lease}, turn {stored.turn}, attempt {stored.attempt}" in result.reason
    assert hands.lines("a") == ["ran"]


async def test_who_waits_for_its_permit_is_overtaken(hands: Hands) -> None:
    """A stale worker gets its permit at last, after a newer attempt has asked on the host."""
    asked = request(hands, hands.adding("a"))

    async def overtaken() -> bool:
        newer = replace(asked, token=Token(0, 2, 1))
        assert (await hands.another().apply(hands.host, newer, no)).kind == "not_begun"
        return True

    result = await hands.driver.apply(hands.host, asked, overtaken)
    assert result.kind == "refused"
    assert hands.lines("a") == []


# ---------------------------------------------------------------- permits


async def test_nothing_begins_without_a_permit(hands: Hands) -> None:
    result = await hands.driver.apply(hands.host, request(hands, hands.adding("a")), no)
    assert result.kind == "not_begun"
    assert "permit" in result.reason
    assert hands.lines("a") == []
    assert not hands.run_folder("op-1", "forward", 1).exists()


async def test_a_late_go_begins_nothing(hands: Hands) -> None:
    async def late() -> bool:
        await asyncio.sleep(1.2)
        return True

    result = await hands.driver.apply(hands.host, request(hands, hands.adding("a")), late)
    assert result.kind == "not_begun"
    assert hands.lines("a") == []


async def test_a_go_that_was_late_once_is_asked_for_again(hands: Hands) -> None:
    asked = []

    async def late_once() -> bool:
        asked.append(1)
        await asyncio.sleep(1.2 if len(asked) == 1 else 0)
        return True

    result = await hands.driver.apply(hands.host, request(hands, hands.adding("a")), late_once)
    assert result.kind == "done"
    assert len(asked) == 2
    assert hands.lines("a") == ["ran"]


async def test_a_permit_that_breaks_begins_nothing(hands: Hands) -> None:
    async def breaks() -> bool:
        raise RuntimeError("no workflow")

    with pytest.raises(RuntimeError, match="no workflow"):
        await hands.driver.apply(hands.host, request(hands, hands.adding("a")), breaks)
    assert hands.lines("a") == []


# ---------------------------------------------------------------- lost connections and processes


async def test_steps_survive_the_connection(hands: Hands) -> None:
    step = hands.adding("a", "sleep 1", "echo whole", 'echo end >>"$0"')
    running = asyncio.create_task(apply(hands, request(hands, step)))
    await until(lambda: hands.lines("a"))
    hands.cut()
    with pytest.raises(Unreachable):
        await running
    result = await apply(hands, request(hands, step, attempt=2))
    assert result == StepResult("done", exit_status=0, output="whole\n")
    assert hands.lines("a") == ["ran", "end"]


async def test_a_connection_cut_while_the_permit_is_asked_begins_nothing(hands: Hands) -> None:
    async def cut() -> bool:
        hands.cut()
        return True

    with pytest.raises(Unreachable):
        await hands.driver.apply(hands.host, request(hands, hands.adding("a")), cut)
    result = await hands.driver.apply(hands.host, request(hands, hands.adding("a"), attempt=2), no)
    assert result.kind == "not_begun"
    assert hands.lines("a") == []


async def test_a_killed_runner_is_told_as_died_and_never_run_again(hands: Hands) -> None:
    step = hands.adding("a", "exec sleep 60")
    running = asyncio.create_task(apply(hands, request(hands, step)))
    begun = hands.run_folder("op-1", "forward", 1) / "begun"
    await until(lambda: hands.lines("a"))
    runner = int(begun.read_text().split()[3])
    os.kill(runner, signal.SIGKILL)
    result = await running
    assert result.kind == "died"
    left = int(result.reason.rsplit(maxsplit=1)[1])
    assert (await apply(hands, request(hands, step, attempt=2))).kind == "died"

    new_turn = request(hands, hands.adding("a"), turn=2)
    waiting = await apply(hands, replace(new_turn, limit=1.0))
    assert waiting.kind == "blocked"
    assert str(left) in waiting.reason
    os.kill(left, signal.SIGKILL)
    assert (await apply(hands, new_turn)).kind == "done"
    assert hands.lines("a") == ["ran", "ran"]


async def test_steps_past_their_limit_are_told_and_left_alone(hands: Hands) -> None:
    step = hands.adding("a", "sleep 2.5", "echo end")
    asked = replace(request(hands, step), limit=1.0)
    result = await apply(hands, asked)
    assert result.kind == "running"
    again = await apply(hands, replace(asked, limit=20.0, token=Token(0, 1, 2)))
    assert again == StepResult("done", exit_status=0, output="end\n")
    assert hands.lines("a") == ["ran"]


async def test_another_operation_waits_for_the_agents_lock(hands: Hands) -> None:
    running = asyncio.create_task(apply(hands, request(hands, hands.adding("a", "sleep 3"))))
    await until(lambda: hands.lines("a"))
    other = replace(request(hands, hands.adding("b")), operation="op-2")
    blocked = await apply(hands, replace(other, limit=0.2))
    assert blocked.kind == "blocked"
    assert "op-1" in blocked.reason
    assert hands.lines("b") == []
    assert (await apply(hands, other)).kind == "done"
    assert (await running).kind == "done"


async def test_an_agent_that_a_step_starts_does_not_keep_the_lock(hands: Hands) -> None:
    daemon = hands.adding("a", "setsid sleep 60 & echo $!")
    first = await apply(hands, request(hands, daemon))
    try:
        assert (await apply(hands, request(hands, hands.adding("a"), turn=2))).kind == "done"
    finally:
        os.kill(int(first.output), signal.SIGKILL)


# ---------------------------------------------------------------- words are words

NASTY = [
    "'",
    '"',
    "a b",
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "a\nb",
    "*",
    "\\",
    "%s",
]


@pytest.mark.parametrize("nasty", [*NASTY, "", "--", "=", "ü€"])
async def test_words_arrive_as_they_were_sent(hands: Hands, nasty: str) -> None:
    echo: Command = ("printf", "<%s>", nasty, "end")
    result = await apply(hands, request(hands, echo))
    assert result == StepResult("done", exit_status=0, output=f"<{nasty}><end>")
    assert await hands.driver.run(hands.host, echo, limit=10) == (0, f"<{nasty}><end>")


@pytest.mark.parametrize("nasty", [*NASTY, "..", ".", "a/../../b", "-n", "~", "x" * 90])
async def test_names_are_only_names(hands: Hands, nasty: str) -> None:
    asked = replace(request(hands, hands.adding("a")), operation=nasty, agent=nasty)
    host = replace(hands.host, name=nasty)
    for attempt in (1, 2):
        asked = replace(asked, token=Token(0, 1, attempt))
        assert (await hands.driver.apply(host, asked, yes)).kind == "done"
    assert hands.lines("a") == ["ran"]
    assert not list(hands.folder.rglob("pwned")) + list(hands.state.rglob("pwned"))


async def test_a_word_that_is_a_shell_builtin_is_a_program_or_nothing(hands: Hands) -> None:
    for turn, word in enumerate(("exit", "step", "say", "."), 1):
        result = await apply(hands, request(hands, (word, "0"), turn=turn))
        assert (result.kind, result.exit_status) in (("done", 127), ("done", 126)), word


@pytest.mark.parametrize("command", [(), ("",), ("-x",), ("echo", "a\0b")])
async def test_what_is_no_command_is_refused(hands: Hands, command: Command) -> None:
    with pytest.raises(Refused):
        await apply(hands, request(hands, command))
    with pytest.raises(Refused):
        await hands.driver.run(hands.host, command, limit=5)


# ---------------------------------------------------------------- what is kept and told


async def test_steps_know_their_operation_and_leave_a_log(hands: Hands) -> None:
    step = ("sh", "-c", 'echo "$GUARDRAIL_OPERATION $GUARDRAIL_HOST $GUARDRAIL_DIRECTION"; umask')
    result = await apply(hands, replace(request(hands, step), run="run 1"))
    assert result.output.splitlines()[0] == f"op-1 {hands.host.name} forward"
    assert result.output.splitlines()[1] == f"{os.umask(os.umask(0o22)):04o}"
    log = [line.split() for line in (hands.state / "log").read_text().splitlines()]
    mine = [line[2:] for line in log if line[4] == hands.host.name]
    assert [line[0] for line in mine] == ["begin", "end"]
    token = [hands.host.name, "token", "0.1.1"]
    assert mine[0][1:7] == ["op-1@run%201", hands.host.name, "forward", *token]


async def test_output_is_capped(hands: Hands) -> None:
    loud = ("sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo tail")
    result = await apply(hands, request(hands, loud))
    assert len(result.output) == 64 * 1024
    assert result.output.endswith("tail\n")
    status, output = await hands.driver.run(hands.host, loud, limit=10)
    assert status == 0
    assert len(output) < 65 * 1024
    assert output.endswith("more bytes were cut]")


async def test_old_runs_of_other_operations_are_removed(hands: Hands) -> None:
    for operation in ("old", "young", "op-1"):
        folder = hands.state / "runs" / operation / hands.host.name
        folder.mkdir(parents=True, exist_ok=True)
    old = 31 * 24 * 3600
    for operation in ("old", "op-1"):
        path = hands.state / "runs" / operation
        os.utime(path, (path.stat().st_mtime - old, path.stat().st_mtime - old))
    await apply(hands, request(hands, hands.adding("a")))
    assert {path.name for path in (hands.state / "runs").iterdir()} >= {"young", "op-1"}
    assert not (hands.state / "runs" / "old").exists()


# ---------------------------------------------------------------- probes


async def test_a_probe_gets_status_and_output(hands: Hands) -> None:
    command = ("sh", "-c", "echo out; echo err >&2; exit 7")
    assert await hands.driver.run(hands.host, command, limit=10) == (7, "out\nerr\n")
    assert (await hands.driver.run(hands.host, ("no-such-program",), limit=10))[0] == 127


async def test_a_probe_that_hangs_is_ended_by_the_limit(hands: Hands) -> None:
    with pytest.raises(Unreachable, match=r"did not end within 0\.3 s"):
        await hands.driver.run(hands.host, ("sleep", "60"), limit=0.3)
