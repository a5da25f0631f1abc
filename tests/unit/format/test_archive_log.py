"""Archive files of layout 1: Hudi's own are read; cut or flipped bytes are an error, and nothing worse."""

from __future__ import annotations

import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, NotSupportedError
from pudi.format import Action, State, decode_archive_log
from support.golden import FOLDER

PREFIX = "cow_v6_archived/.hoodie/history/.commits_.archive."


def archive(number: int) -> bytes:
    with zipfile.ZipFile(FOLDER / "cow_v6_archived.zip") as table:
        return table.read(f"{PREFIX}{number}_1-0-1")


FIRST = archive(1)


def test_each_state_of_each_instant_is_an_entry() -> None:
    entries = list(decode_archive_log(FIRST))
    states = [State.REQUESTED, State.INFLIGHT, State.COMPLETED]
    times = ["20261121080324141", "20261121080326108", "20261121080327860"]
    assert [(e.requested, e.state) for e in entries] == [(time, state) for time in times for state in states]
    assert {e.action for e in entries} == {Action.COMMIT}
    assert entries[2].transition == "20261121080326039"


def test_what_a_write_and_a_clean_said() -> None:
    done = {(e.requested, e.action): e for n in (1, 2, 3) for e in decode_archive_log(archive(n)) if e.state == 2}
    commit = done["20261121080326108", Action.COMMIT].commit_metadata
    assert commit.operation_type == "UPSERT"
    assert sorted(commit.partition_to_write_stats) == ["chennai", "nyc", "sao_paulo"]
    assert '"cow_v6_archived_record"' in commit.extra_metadata["schema"]
    clean = done["20261121080333955", Action.CLEAN]
    assert clean.content["earliestCommitToRetain"] == "20261121080329673"
    assert clean.commit_metadata.partition_to_write_stats == {}


def test_an_empty_file_has_no_entries() -> None:
    assert list(decode_archive_log(b"")) == []


@given(st.integers(1, len(FIRST) - 1))
def test_a_file_cut_short_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptError) as raised:
        list(decode_archive_log(FIRST[:size], path="a"))
    assert raised.value.path == "a"


@given(st.integers(0, len(FIRST) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_no_crash(at: int, mask: int) -> None:
    damaged = bytearray(FIRST)
    damaged[at] ^= mask
    try:
        for entry in decode_archive_log(bytes(damaged)):
            assert entry.commit_metadata is not None
    except (CorruptError, NotSupportedError):  # the version or kind of a block may become another one
        return
