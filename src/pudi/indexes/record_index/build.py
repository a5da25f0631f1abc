"""Build a record index: count the keys, make the file groups, write the location of each key.

Source: HoodieBackedTableMetadataWriter.initializeFilegroupsAndCommitToRecordIndexPartition,
HoodieTableMetadataUtil.estimateFileGroupCount.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pudi.client import TableSnapshot
from pudi.client.changed_groups import key_reading
from pudi.client.inflight_builds import with_maintained
from pudi.config import MetadataOptions
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.filegroup import FileSlice
from pudi.format import WriteStat, instant_to_millis, staging_dir
from pudi.format.metadata_partitions import RECORD_INDEX
from pudi.indexes.record_index.state import (
    is_defined_by_partition,
    note_repeated,
    shards_of,
)
from pudi.metadata.record_index import WHOLE_TABLE, encode_location, shard_id
from pudi.metadata_write.build import IndexBuilder
from pudi.metadata_write.client import Stats, open_metadata
from pudi.metadata_write.index_defs import IndexSpec
from pudi.task.index_keys import CountTask, KeyTask, ShardTask
from pudi.task.staged_keys import KeyWatch, LateTask, Repeated, StagedKeys, portions_by_shard, repeated_of, staged_of

_RECORD_BYTES = 48
"""Bytes of an average record of the index (RECORD_INDEX_AVERAGE_RECORD_SIZE)."""


_COUNTERS = 16
"""Tasks that count records."""


_COUNTED_FROM = 256 << 20
"""Bytes of a table, or partition, from which on its records are counted: with fewer there are never too many."""


@dataclass(slots=True)
class RecordIndexBuilder(IndexBuilder):
    """Builds a record index."""

    _shards: Mapping[str | None, int] = field(default_factory=dict, init=False)
    _repeated: list[Repeated] = field(default_factory=list, init=False)

    def spec(self) -> IndexSpec:
        """The index itself; the table must keep record keys in its files."""
        if not self.work.meta.config.populate_meta_fields:
            raise NotSupportedError(
                "a record index of a table without meta fields: Apache Hudi adds no keys to it, and then misses "
                "records; SIMPLE, GLOBAL_SIMPLE and BUCKET find them without it",
                table=self.work.meta.storage.root,
            )
        return self.work.spec

    def groups(self) -> Sequence[str]:
        """Return as many file groups as the expected number of records needs."""
        self._shards = self._counted(self.work.slices())
        return [shard_id(n, scope) for scope, count in sorted(self._shards.items(), key=str) for n in range(count)]

    def late_groups(self) -> Sequence[str]:
        """Return the minimum number of file groups for each new partition of the table."""
        new = {self._scope(each) for each in self.work.slices()} - set(self._shards)
        self._shards = {**self._shards, **dict.fromkeys(new, max(1, self._least))}
        return [shard_id(n, scope) for scope in sorted(new, key=str) for n in range(self._shards[scope])]

    def fill(self) -> Stats:
        """Write the location of each key, by tasks: no key passes through this process."""
        return {RECORD_INDEX: self._bases(self._staged(self.work.slices()))}

    def finish(self, now: TableSnapshot) -> Stats:
        """Note keys that are in several file groups, of the table as it was and of what was committed since.

        A record that moved since counts, too: it's in the base file where it was.
        """
        if {i.requested for i in now.timeline.commits} - {i.requested for i in self.work.snapshot.timeline.commits}:
            self._repeated += self._late(now)
        if self._repeated:
            note_repeated(now, self._repeated)
        return {}

    def _late(self, now: TableSnapshot) -> Sequence[Repeated]:
        """Return the keys that commits brought since the build began, and that other file groups had before.

        Under the table's lock, so this process looks for them, not the engine's jobs.
        """
        meta = self.work.meta
        known = shards_of(now, with_maintained(meta, open_metadata(meta)))
        changed = [each for each in known.slices if each.base is not None and each.logs]
        return repeated_of([LateTask(n, each, known.scope).run(meta.storage, 0) for n, each in enumerate(changed)])

    @property
    def _partitioned(self) -> bool:
        return is_defined_by_partition(self.work.spec)

    def _counted(self, slices: Sequence[FileSlice]) -> Mapping[str | None, int]:
        """Return the number of file groups, for the table or for each partition (estimateFileGroupCount)."""
        options, low = MetadataOptions.of(self.work.options), self._least
        high = options.partitioned_record_index_max_groups if self._partitioned else options.record_index_max_groups
        scopes: dict[str | None, list[FileSlice]] = {} if self._partitioned else {WHOLE_TABLE: []}
        for each in slices:
            scopes.setdefault(self._scope(each), []).append(each)
        if low == high:
            return dict.fromkeys(scopes, low)
        found = {}
        for scope, group in scopes.items():
            records = self._records(group) if sum(s.size for s in group) >= _COUNTED_FROM else 0
            expected = math.ceil(records * options.record_index_growth)
            number = expected // max(1, options.record_index_max_group_bytes // _RECORD_BYTES)
            found[scope] = max(1, min(max(number, low), high))
        return found

    @property
    def _least(self) -> int:
        options = MetadataOptions.of(self.work.options)
        return options.partitioned_record_index_min_groups if self._partitioned else options.record_index_min_groups

    def _scope(self, file_slice: FileSlice) -> str | None:
        return file_slice.partition if self._partitioned else WHOLE_TABLE

    def _records(self, slices: Sequence[FileSlice]) -> int:
        """Count the records of some slices, from base file footers."""
        count = min(_COUNTERS, len(slices))
        results = self.work.run([CountTask(n, tuple(slices[n::count])) for n in range(count)])
        return sum(result.received for result in results)

    def _staged(self, slices: Sequence[FileSlice]) -> list[StagedKeys]:
        work, jobs = self.work, []
        reading, folder = key_reading(work.snapshot), staging_dir(work.requested)
        for number, each in enumerate(slices):
            shards = self._shards[self._scope(each)]
            location = encode_location(each.partition, each.file_id, self._millis(each.instant))
            jobs.append(KeyTask(number, reading, each.partition, location, shards, f"{folder}/{number}", None, each))
        found = staged_of(work.run(jobs))
        return found if self._partitioned else [replace(each, partition="") for each in found]

    def _bases(self, staged: Sequence[StagedKeys]) -> tuple[WriteStat, ...]:
        tasks = []
        for number, ((partition, shard), portions) in enumerate(portions_by_shard(staged).items()):
            file_id = shard_id(shard, partition if self._partitioned else WHOLE_TABLE)
            target = FileSlice(RECORD_INDEX, file_id, None)
            layout = self.work.meta.store.layout
            task = ShardTask(number, self.work.requested, layout, target, portions, bootstrap=True, watch=KeyWatch())
            tasks.append(task)
        results = self.work.run(tasks)
        self._repeated = list(repeated_of(results))
        return tuple(stat for result in results for stat in result.stats)

    def _millis(self, instant: str) -> int:
        try:
            return instant_to_millis(instant, self.work.meta.config.timezone)
        except InvalidArgumentError:  # a table bootstrapped from other files has instants that are no dates
            return 0
