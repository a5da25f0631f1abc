"""Whatever fails behind a commit: the verb tells the commit, and what failed; the next one makes up for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import pudi
import pudi.table.table as table_module
from pudi.client import MetaClient
from pudi.context import Context
from pudi.engine.local import LocalEngine
from pudi.storage import StorageWrapper, open_storage
from support.trips import SCHEMA, table, trip

pytestmark = pytest.mark.metadata_by_default

COMPACTING = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}


@pytest.fixture
def trips(tmp_path: Path) -> pudi.Table:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", ordering="ts", table_type="mor")
    made.insert(table([trip(n, 10) for n in range(3)]))
    return made


def times(made: pudi.Table) -> list[int]:
    return sorted(pudi.Table(made.path).scan(columns=["ts"]).to_arrow()["ts"].to_pylist())


def has_traceback(caplog: pytest.LogCaptureFixture, error: type[Exception]) -> bool:
    return any(record.exc_info is not None and record.exc_info[0] is error for record in caplog.records)


def test_a_compaction_that_fails_as_nobody_expected(
    trips: pudi.Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(LocalEngine):
        def run_jobs(self, *_: Any) -> Sequence[Any]:
            raise ZeroDivisionError("no engine expects this")

    with monkeypatch.context() as patch:
        patch.setattr(table_module, "engine_of", lambda *_: Broken())
        result = trips.upsert(table([trip(0, 20)]), options=COMPACTING)
    assert result is not None
    assert result.failed_services == {"compaction": "ZeroDivisionError: no engine expects this"}
    assert times(trips) == [10, 10, 20]
    assert has_traceback(caplog, ZeroDivisionError)
    again = trips.upsert(table([trip(1, 20)]), options=COMPACTING)
    assert again is not None
    assert again.failed_services == {}
    assert not trips.timeline.pending
    assert not any(file_slice.logs for file_slice in trips.file_slices())


def test_services_of_the_metadata_table_that_fail(
    trips: pudi.Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("partition")

    monkeypatch.setattr("pudi.services.clean.is_due_on_metadata", broken)
    result = trips.upsert(table([trip(0, 20)]))
    assert result is not None
    assert result.failed_services == {"metadata table": "KeyError: 'partition'"}
    assert times(trips) == [10, 10, 20]
    assert has_traceback(caplog, KeyError)


@pytest.mark.parametrize("verb", ["upsert", "add_column", "insert_overwrite", "compact", "create_index"])
def test_deletes_that_fail_behind_the_commit(trips: pudi.Table, verb: str) -> None:
    class NoDeletes(StorageWrapper):
        """Deletes nothing once the instant is completed."""

        def delete(self, paths: Sequence[str]) -> None:
            if len(pudi.Table(trips.path).timeline.commits) > before or "heartbeat" in paths[0]:
                raise PermissionError("no right to delete")
            super().delete(paths)

    trips.upsert(table([trip(1, 15)]))
    before = len(trips.timeline.commits)
    storage = NoDeletes(open_storage(trips.path))
    broken = pudi.Table.of(MetaClient.open(trips.path, None, {}, Context(), storage), {})
    calls: dict[str, Any] = {
        "upsert": lambda: broken.upsert(table([trip(0, 20)])),
        "add_column": lambda: broken.add_column("tip", SCHEMA.field("ts").type),
        "insert_overwrite": lambda: broken.insert_overwrite(table([trip(0, 20)])),
        "compact": broken.compact,
        "create_index": lambda: broken.create_index("bloom_filters"),
    }
    result = calls[verb]()
    assert result is not None
    if verb in {"upsert", "insert_overwrite"}:
        assert result.failed_services["clean-up"] == "PermissionError: no right to delete"
    after = {"insert_overwrite": [20], "upsert": [10, 15, 20]}.get(verb, [10, 10, 15])
    assert times(trips) == after
    missing = {"hoodie.write.set.null.for.missing.columns": "true"}
    assert trips.upsert(table([trip(2, 30)]), options=missing) is not None, "the next writer cleans up"
