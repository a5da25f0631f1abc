"""The pipeline: two Hudi tables, one fed by the airport, the other by an incremental query on the first."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
from engines import Engine
from feed import FLIGHT, KEY, Batch
from reports import LatestReport

import pudi

DELAYS = pa.schema(
    [
        ("carrier", pa.string()),
        ("day", pa.string()),
        ("month", pa.string()),
        ("departed", pa.int64()),
        ("measured", pa.int64()),  # flights whose delay on arrival is known
        ("dep_minutes", pa.int64()),  # sums of delays
        ("arr_minutes", pa.int64()),
        ("worst", pa.int32()),
    ]
)

COMPACTION = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "20"}

OnCommit = Callable[[str, str, "pudi.CommitResult | None"], None]


class Pipeline:
    """Keeps both tables up to date, batch by batch.

    Args:
        folder: where the tables are made.
        engine: what runs it.
        on_commit: told the table's name, the batch's and what was committed, after each verb.
        table_type: `cow`; or `mor`, where changes go to log files that are compacted now and then, and a merger of the
            pipeline's own says which report on a flight stands.
        keep: batches after which a savepoint keeps the flights: without one, old states are cleaned after ten commits.
    """

    def __init__(
        self, folder: Path, engine: Engine, on_commit: OnCommit, table_type: str = "cow", keep: Collection[str] = ()
    ) -> None:
        kept: dict[str, str] = {}
        if table_type == "mor":
            pudi.register_merger(LatestReport())
            kept = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.record.merge.strategy.id": LatestReport.strategy_id}
        # A version of a flight with an older event time never replaces a newer one, whenever it comes.
        pudi.create(
            folder / "flights",
            FLIGHT,
            record_key=KEY,
            partition_by="month",
            ordering="event_time",
            table_type=table_type,
            options=kept,
        )
        # Delays are computed anew, so the last word counts: no ordering column.
        pudi.create(
            folder / "delays", DELAYS, record_key=["carrier", "day"], partition_by="month", table_type=table_type
        )
        services = COMPACTION if table_type == "mor" else {}
        self.flights = pudi.Table(folder / "flights", options=services)
        self.delays = pudi.Table(folder / "delays", options=services)
        self.commits: dict[str, pudi.CommitResult] = {}  # by batch, the one that brought its departures and arrivals
        self._engine = engine
        self._on_commit = on_commit
        self._keep = keep
        self._seen: str | None = None  # completion time up to which the delays know the flights

    def publish(self, schedule: Path) -> None:
        """Add a month's schedule: all keys are new, so nothing needs to be looked up."""
        self._commit("flights", schedule.stem, self.flights.bulk_insert(self._engine.read(schedule)))

    def take(self, batch: Batch) -> None:
        """Apply a batch to the flights, and what it changed to the delays."""
        self._commit("flights", batch.name, self.flights.delete(self._engine.read(batch.cancellations)))
        result = self._commit("flights", batch.name, self.flights.upsert(self._engine.read(batch.events)))
        if result is not None:
            self.commits[batch.name] = result
            if batch.name in self._keep:
                self.flights.savepoint(result.instant, comment=f"what was known after {batch.name}")
            self._refresh_delays(batch.name)
            self._seen = result.completion_time

    def _refresh_delays(self, batch: str) -> None:
        """Compute the delays of a carrier's day anew, for those that had a change since the last time."""
        changes = self.flights.changes(
            since=self._seen, columns=["carrier", "day", "month"], where="status <> 'scheduled'", meta_fields=False
        )
        found = self._engine.groups(changes)
        if found is None:
            return
        groups, first, last = found
        touched = self.flights.scan(
            columns=["carrier", "day", "month", "dep_delay", "arr_delay"],
            where=f"month BETWEEN '{first[:7]}' AND '{last[:7]}' AND day BETWEEN '{first}' AND '{last}'"
            " AND status <> 'scheduled'",
        )
        self._commit("delays", batch, self.delays.upsert(self._engine.delays(touched, groups)))

    def _commit(self, table: str, batch: str, result: Any) -> Any:
        self._on_commit(table, batch, result)
        return result
