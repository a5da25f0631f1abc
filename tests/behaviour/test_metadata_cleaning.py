"""Old slices of the metadata table go, beside cleans that others have begun."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.format import Action, State
from pudi.format.plans import CleanPlan, encode_clean_plan
from pudi.metadata_write.client import open_metadata
from support.trips import SCHEMA, table, trip

OFTEN = {"hoodie.metadata.enable": "true", "hoodie.metadata.compact.max.delta.commits": "5"}


def _cleans(path: Path, *states: State) -> list[str]:
    mdt = open_metadata(MetaClient.open(str(path), None, {}))
    return [instant.requested for instant in mdt.store.load().of(Action.CLEAN, *states)]


def test_a_clean_that_may_be_at_work_is_left_alone_and_a_dead_one_is_not(tmp_path: Path) -> None:
    """Its writer would fail if it were taken off the timeline."""
    path = tmp_path / "trips"
    made = pudi.create(path, SCHEMA, record_key="uuid", ordering="ts", options=OFTEN)
    made = pudi.Table(path, options=OFTEN)
    for number in range(8):
        made.upsert(table([trip(1, number)]))
    mdt = open_metadata(MetaClient.open(str(path), None, {}))
    newest = mdt.store.load().commits[-1].requested
    other = mdt.store.request(Action.CLEAN, encode_clean_plan(CleanPlan(None, newest, {}, "KEEP_LATEST_FILE_VERSIONS")))
    mdt.store.start(other)
    for number in range(8, 12):
        made.upsert(table([trip(1, number)]))
    assert _cleans(path, State.INFLIGHT) == [other.requested]
    for file in (path / ".hoodie" / "metadata" / ".hoodie" / "timeline").glob("*.clean*"):
        os.utime(file, (1, 1))
    for number in range(12, 30):
        made.upsert(table([trip(1, number)]))
    assert _cleans(path, State.REQUESTED, State.INFLIGHT) == []
    assert _cleans(path, State.COMPLETED)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_frequent_compactions_leave_no_old_slices(tmp_path: Path, every: int) -> None:
    options = {**OFTEN, "hoodie.metadata.compact.max.delta.commits": str(every)}
    pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", ordering="ts", options=options)
    made = pudi.Table(tmp_path / "trips", options=options)
    for number in range(12):
        made.upsert(table([trip(1, number)]))
    bases = list((tmp_path / "trips" / ".hoodie" / "metadata" / "files").glob("*.hfile"))
    assert len(bases) <= 3, "two slices of each file group stay, and one that was written since"
    assert _cleans(tmp_path / "trips", State.COMPLETED)
    assert made.scan().to_arrow()["ts"].to_pylist() == [11]
