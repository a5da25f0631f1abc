"""What no second attempt cures: a full disk, missing rights, a file too large. Said so, and nothing is left behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import pudi
from support.disk import base_files
from support.trips import SCHEMA, table, trip

REFUSALS = {
    errno.ENOSPC: "full: make room",
    errno.EDQUOT: "quota",
    errno.EFBIG: "too large|larger than",
    errno.EROFS: "read-only",
    errno.EACCES: "no rights",
    errno.EPERM: "no rights",
}


@pytest.fixture(params=["cow", "mor"])
def trips(tmp_path: Path, request: pytest.FixtureRequest) -> pudi.Table:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", ordering="ts", table_type=request.param)
    made.insert(table([trip(n, 10) for n in range(6)]))
    return made


def refuse(monkeypatch: pytest.MonkeyPatch, number: int, least: int) -> None:
    """Have the system refuse every write of `least` bytes or more."""
    write = os.write

    def refused(descriptor: int, data: Any) -> int:
        if len(data) >= least:
            raise OSError(number, os.strerror(number))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", refused)


@pytest.mark.parametrize("number", REFUSALS, ids=errno.errorcode.get)
@pytest.mark.parametrize("least", [1000, 1], ids=["data files", "any file"])
def test_a_write_that_is_refused(trips: pudi.Table, number: int, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    files = base_files(Path(trips.path))
    with monkeypatch.context() as patch:
        refuse(patch, number, least)
        with pytest.raises(pudi.RefusedError, match=REFUSALS[number]) as raised:
            trips.upsert(table([trip(0, 20)]))
    assert not raised.value.retryable
    assert raised.value.table == trips.path
    assert base_files(Path(trips.path)) == files
    assert sorted(trips.scan().to_arrow()["ts"].to_pylist()) == [10] * 6
    assert trips.upsert(table([trip(0, 20)])) is not None, "and it works once the cause is gone"
    assert not trips.timeline.pending


def test_a_disk_that_gives_an_error_once_may_be_tried_again(trips: pudi.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.EIO, 1000)
    with pytest.raises(pudi.UnavailableError) as raised:
        trips.upsert(table([trip(0, 20)]))
    assert raised.value.retryable


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_create_where_one_may_not_write(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(pudi.RefusedError, match="no rights"):
        pudi.create(tmp_path / "closed/trips", SCHEMA, record_key="uuid")
