"""The local engine: each task in a thread of a small pool, records as one Arrow table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pudi.context import Context, Storage
from pudi.engine.local.records import LocalRecords, LocalTagged, TaggedPartition, distinct_keys, keyed
from pudi.format import new_file_id, write_token
from pudi.plan import FileTask, InsertRoute, WritePlan, WriteSpec
from pudi.plan.write import SHARES
from pudi.task import FileResult, KeyLookup, find_keys, key_span, write_file
from pudi.task.bulk import file_bytes
from pudi.task.engine import InputSpec

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Runs tasks on this machine's cores.

    Args:
        threads: tasks in work at once; memory holds as many file groups.
    """

    threads: int = field(default_factory=lambda: os.cpu_count() or 1)

    def prepare(self, data: Any, spec: InputSpec) -> LocalRecords:
        """Check the input and give its records their keys; see `pudi.task.engine.Engine`."""
        return LocalRecords(keyed(data, spec))

    def tag(self, records: LocalRecords, storage: Storage, lookups: Sequence[KeyLookup]) -> LocalTagged:
        """Find the records' keys in file slices."""
        by_partition: dict[str, list[KeyLookup]] = {partition: [] for partition in records.partitions}
        for lookup in lookups:
            by_partition[lookup.file_slice.partition].append(lookup)
        distinct = dict(
            zip(
                records.partitions,
                self._map(lambda rows: distinct_keys(records, rows), records.partitions.values()),
                strict=True,
            )
        )
        spans = {partition: key_span(keys) for partition, (keys, _) in distinct.items()}

        def find(lookup: KeyLookup) -> np.ndarray:
            partition = lookup.file_slice.partition
            return find_keys(storage, lookup, distinct[partition][0], spans[partition])

        found = self._map(find, lookups)
        positions = dict(zip(lookups, found, strict=True))
        tagged = {}
        for partition, group in by_partition.items():
            keys, codes = distinct[partition]
            located = np.full(len(keys), -1, dtype=np.int64)
            elsewhere: dict[int, np.ndarray] = {}
            for number, lookup in enumerate(group):
                hits = positions[lookup]
                known = located[hits] >= 0
                located[hits[~known]] = number
                if known.any():
                    elsewhere[number] = hits[known]
            rows = np.asarray(records.partitions[partition])
            file_ids = [u.file_slice.file_id for u in group]
            tagged[partition] = TaggedPartition(rows, codes, located, file_ids, elsewhere)
        return LocalTagged(records, tagged)

    def write(self, tagged: LocalTagged, storage: Storage, spec: WriteSpec, plan: WritePlan) -> Sequence[FileResult]:
        """Bring each record to its task and write the files; a task that no record's hash leads to writes nothing."""
        routes = {route.partition: route for route in plan.routes}
        assigned: dict[int, list[np.ndarray]] = {task.number: [] for task in plan.tasks}
        numbers = {(task.partition, task.file_id): task.number for task in plan.tasks}
        for partition, part in tagged.partitions.items():
            targets = [numbers.get((partition, file_id), -1) for file_id in part.file_ids]
            by_key = np.array([*targets, -1])[part.located]
            route = routes.get(partition)
            if route is not None:
                new = np.flatnonzero(part.located < 0)
                by_key[new] = _spread(new, route)
            by_row = by_key[part.codes]
            for number, places in _by_value(by_row):
                if number >= 0:
                    assigned[number].append(part.rows[places])
            for group, keys in part.elsewhere.items():
                assigned[targets[group]].append(part.rows[np.isin(part.codes, keys)])

        def run(task: FileTask) -> FileResult:
            rows = tagged.records.rows.take(pa.array(np.sort(np.concatenate(assigned[task.number]))))
            return write_file(storage, spec, task, rows, write_token(task.number, 0, 0))

        return self._map(run, [task for task in plan.tasks if assigned[task.number]])

    def bulk_write(
        self, records: LocalRecords, storage: Storage, spec: WriteSpec, context: Context
    ) -> Sequence[FileResult]:
        """Write all records to new file groups: one for each partition, more where it holds many records."""
        unique = context.new_id()
        most = max(1, int(file_bytes(spec) / (records.record_bytes or 1)))
        if spec.deduplicate:  # versions of one key must meet in one file to be combined
            most = max(1, records.rows.num_rows)
        parts = [
            (partition, rows.slice(start, most))
            for partition, rows in records.partitions.items()
            for start in range(0, len(rows), most)
        ]
        tasks = [FileTask(n, partition, new_file_id(unique, n)) for n, (partition, _) in enumerate(parts)]

        def run(task: FileTask) -> FileResult:
            rows = records.rows if len(parts) == 1 else records.rows.take(parts[task.number][1])
            return write_file(storage, spec, task, rows, write_token(task.number, 0, 0))

        return self._map(run, tasks)

    def _map(self, function: Callable[[_Item], _Answer], items: Iterable[_Item]) -> list[_Answer]:
        items = list(items)
        if len(items) <= 1 or self.threads == 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(self.threads, thread_name_prefix="pudi") as pool:
            futures = [pool.submit(function, item) for item in items]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise


def _by_value(values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each distinct value with its places, ascending."""
    order = np.argsort(values, kind="stable")
    distinct, starts = np.unique(values[order], return_index=True)
    if len(values):
        yield from zip(distinct.tolist(), np.split(order, starts[1:]), strict=True)


def _spread(keys: np.ndarray, route: InsertRoute) -> np.ndarray:
    """Task numbers for new keys: each key goes to one task, tasks get their shares."""
    shares = (keys * 0x9E3779B1) % SHARES
    return np.asarray(route.tasks)[np.searchsorted(np.asarray(route.upper), shares, side="right")]
