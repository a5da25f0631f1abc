"""One file for each bucket that has records: rewritten where it's there, begun where it isn't."""

from __future__ import annotations

import pytest

from pudi.errors import CorruptError
from pudi.filegroup import BaseFile, FileSlice
from pudi.format import BaseFileName
from pudi.plan import Operation, WriteProfile, place_buckets
from pudi.plan.write import BucketWrite
from pudi.tagging import Buckets

UUID = "550e8400-e29b-41d4-a716-446655440000"


def _slice(partition: str, file_id: str, instant: str = "20240101000000000") -> FileSlice:
    return FileSlice(partition, file_id, BaseFile(partition, BaseFileName(file_id, "0-0-0", instant), 1))


SLICES = [_slice("nyc", "00000000-a-0"), _slice("nyc", "00000002-b-0"), _slice("sf", "00000002-c-0")]
COUNTS = WriteProfile({("nyc", "00000002"): 5, ("nyc", "00000003"): 1, ("sf", "00000002"): 2, ("sf", "00000000"): 0})


def _write(operation: Operation) -> BucketWrite:
    return BucketWrite(operation, Buckets(4, ("uuid",)), "t")


def test_each_bucket_has_one_file() -> None:
    tasks = place_buckets(COUNTS, SLICES, _write(Operation.UPSERT), lambda: UUID).tasks
    assert [(t.number, t.partition, t.file_id, t.location) for t in tasks] == [
        (0, "nyc", "00000002-b-0", "00000002"),
        (1, "nyc", "00000003-e29b-41d4-a716-446655440000-0", "00000003"),
        (2, "sf", "00000002-c-0", "00000002"),
    ]
    assert [t.base for t in tasks] == [SLICES[1].base, None, SLICES[2].base]


def test_deletes_begin_no_bucket() -> None:
    tasks = place_buckets(COUNTS, SLICES, _write(Operation.DELETE), lambda: UUID).tasks
    assert [t.file_id for t in tasks] == ["00000002-b-0", "00000002-c-0"]


def test_two_files_of_one_bucket_are_refused() -> None:
    twice = [*SLICES, _slice("sf", "00000002-d-0", "20240102000000000")]
    with pytest.raises(CorruptError, match=r"00000002-c-0 and 00000002-d-0 .* 20240102000000000"):
        place_buckets(COUNTS, twice, _write(Operation.UPSERT), lambda: UUID)
    with pytest.raises(CorruptError, match="eight digits"):
        place_buckets(
            COUNTS,
            [_slice("nyc", "abcdef01-0")],
            _write(Operation.UPSERT),
            lambda: UUID,
        )
