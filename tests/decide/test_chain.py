"""Is whatever happens to a journal's bytes found, at the line where it happened, by its name?"""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide import chain
from guardrail.decide.chain import Tip, check, content_of, extend, follow, line_of, read_line
from guardrail.errors import Refused
from guardrail.model.journal import (
    EMPTY,
    RECORDS,
    Entry,
    EntryId,
    GateTold,
    Head,
    HoldRaised,
    HostAsked,
)

T = 1_764_458_110.25


def entry(event, op="op", at=T, **what):
    return Entry(op, EntryId("run", event, 0), at, HostAsked(event, event, "forward", **what))


ENTRIES = [entry(n) for n in range(5)]
DATA, TIP = extend(Tip(), ENTRIES)
LINES = DATA.splitlines(keepends=True)


def wrong(data, head=None, op="op"):
    broken = check(data, op, head).broken
    assert broken is not None, "nothing was found"
    return broken.line, broken.wrong


def test_a_line_is_as_documented():
    first = json.loads(LINES[0])
    assert list(first) == [
        "format", "sequence", "run", "event", "part", "operation",
        "at", "kind", "record", "previous", "hash",
    ]  # fmt: skip
    assert first["at"] == "2025-11-29T23:15:10.250000Z"
    assert first["record"] == {"index": 0, "turn": 0, "direction": "forward"}
    assert (first["format"], first["sequence"], first["previous"]) == (1, 1, "0" * 64)


def test_lines_of_format_1_stay_readable():
    """Written by the first release; if this fails, old journals cannot be read any more."""
    line = (
        b'{"format":1,"sequence":1,"run":"run","event":3,"part":0,"operation":"op",'
        b'"at":"2025-11-29T23:15:10.250000Z","kind":"asked",'
        b'"record":{"index":3,"turn":3,"direction":"forward"},"previous":"'
        + b"0" * 64
        + b'","hash":"3b895f16a2d861ce33dbb029d4d2294b3071d26cfdb462e49b76fa843e2f0286"}'
    )
    assert line_of(entry(3), 1, "0" * 64) == line
    assert check(line + b"\n", "op").broken is None


def test_a_sound_journal():
    checked = check(DATA, "op", TIP.head)
    assert (checked.broken, checked.head) == (None, TIP.head)
    assert [line.record for line in checked.lines] == [each.record for each in ENTRIES]
    assert check(b"").head == EMPTY
    assert check(b"", "op", EMPTY).broken is None


# ---------------------------------------------------------------- what can happen to it


def test_each_flipped_bit_is_found_at_its_line():
    starts = [sum(map(len, LINES[:n])) for n in range(5)]
    for at in range(len(DATA)):
        line = sum(start <= at for start in starts)
        for bit in range(8):
            flipped = bytearray(DATA)
            flipped[at] ^= 1 << bit
            found, what = wrong(bytes(flipped), TIP.head)
            assert found == line, (at, bit)
            assert what in ("changed", "torn"), (at, bit)


@pytest.mark.parametrize("at", range(4))
def test_a_line_taken_out_is_missed_where_it_was(at):
    assert wrong(b"".join(LINES[:at] + LINES[at + 1 :])) == (at + 1, "removed")
    if at < 3:
        assert wrong(b"".join(LINES[:at] + LINES[at + 2 :])) == (at + 1, "removed")


@pytest.mark.parametrize("keep", range(5))
def test_a_missing_end_is_told_by_a_head_alone(keep):
    cut = b"".join(LINES[:keep])
    assert check(cut, "op").broken is None
    assert wrong(cut, TIP.head) == (keep + 1, "removed")
    early = check(b"".join(LINES[:3])).head
    if keep >= 3:
        assert check(cut, "op", early).broken is None


@pytest.mark.parametrize("at", range(4))
def test_two_lines_that_changed_places(at):
    swapped = [*LINES[:at], LINES[at + 1], LINES[at], *LINES[at + 2 :]]
    assert wrong(b"".join(swapped)) == (at + 1, "reordered")


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("which", range(5))
def test_a_copy_of_a_line_put_in_elsewhere(at, which):
    put_in = [*LINES[:at], LINES[which], *LINES[at:]]
    line = at + 2 if at == which else at + 1  # the first of two same lines is the right one
    assert wrong(b"".join(put_in)) == (line, "inserted")


@pytest.mark.parametrize("at", range(5))
def test_a_foreign_line_put_in(at):
    foreign = line_of(entry(77), at + 1, "0" * 64) + b"\n"
    for strange in (b"\n", b"rubbish\n", foreign):
        put_in = b"".join([*LINES[:at], strange, *LINES[at:]])
        # In the first place, a line that begins a chain of its own is as good as the old one.
        if at == 0 and strange == foreign:
            assert wrong(put_in) == (2, "inserted")
        else:
            assert wrong(put_in) == (at + 1, "inserted")


@pytest.mark.parametrize("at", range(5))
def test_a_line_written_anew_with_a_right_hash(at):
    """Somebody who knows how lines are made changes one, and not all after it."""
    previous = check(b"".join(LINES[:at]))
    tip = follow(Tip(), [line[:-1] for line in LINES[:at]])
    assert previous.broken is None
    forged, _ = extend(tip, [entry(at, at=T + 1)])
    data = b"".join([*LINES[:at], forged, *LINES[at + 1 :]])
    if at == 4:  # the last line: only a head tells
        assert check(data, "op").broken is None
        assert wrong(data, TIP.head) == (5, "changed")
    else:
        assert wrong(data) == (at + 2, "changed")


def test_a_whole_chain_made_anew_is_told_by_a_head_alone():
    forged, _ = extend(Tip(), [entry(0, at=T + 1), *ENTRIES[1:]])
    assert check(forged, "op").broken is None
    assert wrong(forged, TIP.head) == (5, "changed")


def test_a_journal_of_another_operation():
    assert wrong(DATA, op="other") == (1, "changed")


def test_the_same_id_twice_in_a_sound_chain():
    data, _ = extend(Tip(), [entry(0), entry(1), entry(0)])
    assert wrong(data) == (3, "inserted")


@pytest.mark.parametrize("cut", [1, 50, len(LINES[4]) - 1])
def test_a_torn_end(cut):
    assert wrong(DATA[: len(DATA) - cut]) == (5, "torn")
    assert wrong(DATA + LINES[0][:cut]) == (6, "torn")


def test_a_format_that_is_newer_says_so(monkeypatch):
    monkeypatch.setattr(chain, "FORMAT", 2)
    newer, _ = extend(Tip(), ENTRIES[:1])
    monkeypatch.undo()
    assert wrong(newer) == (1, "unknown")


def test_a_record_of_a_newer_kind_is_kept_as_it_is():
    line = json.loads(LINES[0])
    assert chain.record_of("lease", {"holder": "x"}) is None
    assert chain.record_of("asked", {**line["record"], "lease": 4}) is None


@given(st.lists(st.sampled_from(LINES) | st.binary(max_size=30), max_size=7))
def test_any_bytes_at_all_are_sound_only_as_a_beginning_of_what_was_written(pieces):
    data = b"".join(pieces)
    checked = check(data, "op", TIP.head)
    if checked.broken is None:
        assert data == DATA
    whole = check(data, "op")
    if whole.broken is None:
        assert DATA.startswith(data)


# ---------------------------------------------------------------- lines and back

texts = st.text(max_size=20)
values = {
    "reasons": st.lists(texts, max_size=3).map(tuple),
    "value": st.none() | st.floats(allow_nan=False, allow_infinity=False),
}


@given(
    st.builds(GateTold, texts, texts, texts, values["value"], values["reasons"], st.booleans())
    | st.builds(HoldRaised, texts, values["reasons"], texts, texts,
                st.lists(st.integers(0, 9)).map(tuple), st.booleans()),
    st.floats(0, 4e9),
    st.from_regex(r"[a-z\"\\,:]{0,12}", fullmatch=True),
)  # fmt: skip
def test_any_entry_is_one_line_and_comes_back(record, at, run):
    made = Entry("op", EntryId(run, 7, 3), at, record)
    line = line_of(made, 1, EMPTY.hash)
    assert b"\n" not in line
    assert line.isascii()
    found = read_line(line)
    assert (found.id, found.record) == (made.id, made.record)
    assert abs(found.at - at) < 1e-5
    assert chain.contents([line], {made.id}) == {made.id: content_of(made)}
    assert follow(Tip(), [line]) == extend(Tip(), [made])[1]


def test_every_kind_of_record_has_its_own_word():
    assert len(chain._KINDS) == len(RECORDS)


def test_a_number_that_is_none_is_refused():
    bad = replace(entry(0), record=GateTold("g", "fail", "", float("nan"), (), True))
    with pytest.raises(Refused, match="a number in it that is none"):
        content_of(bad)


def test_a_head_is_written_as_it_is_read():
    assert str(Head(3, "ab")) == "3:ab"
