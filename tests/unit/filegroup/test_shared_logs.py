"""Log files that several instants wrote to: what may be passed over in them, by what commits state."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pudi.errors import CorruptError
from pudi.filegroup import CommittedLogs, LogFile, LogScope, read_log_blocks
from pudi.filegroup.slices import UNNAMED
from pudi.format import CommitMetadata, Layout, LogFileName, WriteStat, encode_commit_metadata
from pudi.format.log_block import BlockKind, Header, encode_block
from pudi.storage import LocalStorage
from pudi.timeline import Timeline

BASE, X, Y, Z = (f"2026010100000000{n}" for n in range(4))


def block(instant: str, size: int = 50) -> bytes:
    return encode_block(BlockKind.AVRO, {Header.INSTANT_TIME: instant, Header.SCHEMA: "{}"}, bytes(size))


def rollback(target: str) -> bytes:
    headers = {Header.INSTANT_TIME: Z, Header.TARGET_INSTANT_TIME: target, Header.COMMAND_BLOCK_TYPE: "0"}
    return encode_block(BlockKind.COMMAND, headers, b"")


@dataclass
class Log:
    """A log file in a folder, with the commits that state it.

    Attributes:
        root: the folder.
        layout: layout of the table's timeline.
        named: the instant in the file's name.
    """

    root: Path
    layout: Layout = 1
    named: str = BASE

    @property
    def name(self) -> LogFileName:
        return LogFileName("f-0", self.named, 1, "0-0-0")

    def write(self, data: bytes) -> None:
        (self.root / self.name.name).write_bytes(data)

    def commit(self, instant: str, *stated: tuple[int, int]) -> None:
        """A completed delta commit that states bytes of the file, or only a base file."""
        stats = [
            WriteStat(path=self.name.name, log_version=1, log_offset=at, file_size_in_bytes=end) for at, end in stated
        ]
        stats = stats or [WriteStat(path=f"g-0_0-0-0_{instant}.parquet", file_size_in_bytes=1)]
        folder = self.root / ".hoodie"
        folder.mkdir(exist_ok=True)
        name = f"{instant}.deltacommit" if self.layout == 1 else f"{instant}_{int(instant) + 1}.deltacommit"
        (folder / name).write_bytes(encode_commit_metadata(CommitMetadata({"": tuple(stats)}), self.layout))

    def read(self, stated: int | None = None, start: str | None = None) -> list[str]:
        """The instants of the blocks that a reader merges."""
        storage = LocalStorage(str(self.root))
        timeline = Timeline.from_files(storage.list_dir(".hoodie")[0], self.layout)
        completed = frozenset(i.requested for i in timeline.commits)
        committed = CommittedLogs(".hoodie", ".hoodie/archived", self.layout, timeline.commits, start=start)
        scope = LogScope(completed, start=start, committed=committed)
        size = (self.root / self.name.name).stat().st_size
        return [b.instant for b in read_log_blocks(storage, [LogFile("", self.name, size, stated or size)], scope)]


ONE, TORN = len(block(X)), block(Y)[:40]


def test_a_stretch_that_no_commit_states_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = Log(tmp_path)
    log.write(block(X) + TORN + block(Z))
    log.commit(X, (0, ONE))
    log.commit(Z, (ONE + len(TORN), 2 * ONE + len(TORN)))
    with caplog.at_level(logging.WARNING, "pudi"):
        assert log.read() == [X, Z]
    assert f"bytes {ONE} to {ONE + len(TORN)} are not a complete block; skipped" in caplog.text


def test_a_stretch_that_a_commit_states_is_not(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(block(X) + TORN + block(Z))
    log.commit(X, (0, ONE))
    log.commit(Y, (ONE, 2 * ONE))
    log.commit(Z, (2 * ONE, 3 * ONE))
    with pytest.raises(CorruptError, match="cut off") as caught:
        log.read()
    log.write(block(X) + TORN + bytes(ONE - len(TORN)) + block(Z))
    with pytest.raises(CorruptError, match="damaged") as caught:
        log.read()
    assert (caught.value.offset, caught.value.instant) == (ONE, Y)


def test_the_end_that_a_later_commit_states_is_missed(tmp_path: Path) -> None:
    """Whole blocks are left, of the first commit alone."""
    log = Log(tmp_path)
    log.write(block(X))
    log.commit(X, (0, ONE))
    log.commit(Y, (ONE, 2 * ONE))
    with pytest.raises(CorruptError, match="cut off"):
        log.read(stated=2 * ONE)


def test_a_torn_end_and_blocks_that_were_rolled_back_are_passed_over(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(block(X) + block(Y) + rollback(Y) + TORN)
    log.commit(X, (0, ONE))
    assert log.read() == [X]
    assert log.read(stated=ONE) == [X]


def test_a_block_that_names_another_instant_than_the_commit_that_wrote_it(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(block(X[:-1] + "9"))
    log.commit(X, (0, ONE))
    with pytest.raises(CorruptError, match=f"has a block of instant {X[:-1]}9 in bytes that commit"):
        log.read()


def test_nothing_is_passed_over_where_a_commit_cannot_be_read(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(block(X) + TORN)
    log.commit(X, (0, ONE))
    (tmp_path / ".hoodie" / f"{Y}.deltacommit").write_bytes(b"{")
    with pytest.raises(CorruptError, match="too few commits are left"):
        log.read()


def test_nor_where_a_rollback_may_be_what_is_passed_over(tmp_path: Path) -> None:
    """An instant older than the timeline counts as archived, unless a rollback says otherwise."""
    log = Log(tmp_path)
    log.write(block(X) + block(Y) + TORN)
    log.commit(Y, (ONE, 2 * ONE))
    with pytest.raises(CorruptError, match="isn't archived"):
        log.read(start=Y)


@pytest.mark.parametrize("stated", [[(0, 2 * ONE)], [(0, ONE), (0, 2 * ONE)], [(0, 2 * ONE), (0, ONE)]])
def test_of_several_statistics_of_a_file_the_greatest_counts(tmp_path: Path, stated: Sequence[tuple[int, int]]) -> None:
    log = Log(tmp_path, 2, X)
    log.commit(X, *stated)
    log.write(block(X) * 2)
    assert log.read() == [X, X]
    for data in (block(X), block(X) * 3, block(X) * 2 + b"\0", b"", block(X) + block(Y)):
        log.write(data)
        with pytest.raises(CorruptError):
            log.read(stated=2 * ONE)


def test_a_failed_tasks_file_is_merged_while_it_is_whole_and_passed_over_where_it_is_not(tmp_path: Path) -> None:
    log = Log(tmp_path, 2, X)
    log.commit(X)
    log.write(block(X))
    assert log.read(stated=UNNAMED) == [X]
    log.write(block(X) + TORN)
    assert log.read(stated=UNNAMED) == [X]
    log.write(TORN)
    assert log.read(stated=UNNAMED) == []


def test_a_file_from_before_an_upgrade_is_judged_as_such(tmp_path: Path) -> None:
    """The timeline has layout 2; the file is named by its base instant, and instants after that wrote to it."""
    log = Log(tmp_path, 2, BASE)
    log.commit(BASE)
    log.commit(X, (0, ONE))
    log.commit(Z, (ONE + len(TORN), 2 * ONE + len(TORN)))
    log.write(block(X) + TORN + block(Z))
    assert log.read() == [X, Z]
    log.write(block(X) + TORN + block(Z)[:-1])
    with pytest.raises(CorruptError):
        log.read()
    log.write(block(X))
    with pytest.raises(CorruptError, match="cut off"):
        log.read(stated=2 * ONE + len(TORN))
