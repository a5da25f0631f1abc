"""Make the bloom filters of a table's base files, by the engine's tasks.

Source: FORMAT 7.2; HoodieBackedTableMetadataWriter.initializeBloomFiltersPartition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pudi.action.mdt.build import group_ids
from pudi.action.mdt.building import IndexBuilder, Stats
from pudi.config import MetadataOptions
from pudi.errors import InvalidArgumentError
from pudi.filegroup import BaseFile
from pudi.format import parse_base_file, staging_dir
from pudi.format.metadata_partitions import BLOOM_FILTERS
from pudi.metadata.index_spec import IndexSpec
from pudi.task.blooms import BloomShardTask, BloomTask
from pudi.task.index_keys import StagedKeys, portions_by_shard

_TASKS = 64
"""Most tasks that look at files."""


@dataclass(slots=True)
class BloomFiltersBuilder(IndexBuilder):
    """Fills the bloom filters of base files; files that have none in their footers get one made of their keys."""

    def spec(self) -> IndexSpec:
        """The index itself; the table must keep record keys in its files."""
        if not self.work.meta.config.populate_meta_fields:
            raise InvalidArgumentError(
                "files without meta fields have no record keys to make bloom filters of",
                table=self.work.meta.storage.root,
            )
        return self.work.spec

    def groups(self) -> Sequence[str]:
        """As many as the option says."""
        return group_ids(BLOOM_FILTERS, self.work.options[MetadataOptions.bloom_filters_groups])

    def fill(self) -> Stats:
        """Write what the files' footers, or their keys, say."""
        work, ids = self.work, self.groups()
        listed = work.meta.listing(work.timeline).all_files()
        files = [
            BaseFile(partition, name, info.size)
            for partition, infos in listed.items()
            for info in infos
            if (name := parse_base_file(info.path.rpartition("/")[2])) is not None
        ]
        count, folder = min(_TASKS, len(files)), staging_dir(work.requested)
        staged = work.run(
            [
                BloomTask(number, work.requested, tuple(files[number::count]), len(ids), f"{folder}/{number}")
                for number in range(count)
            ]
        )
        found = portions_by_shard([each for each in staged if isinstance(each, StagedKeys) and each.shards])
        tasks = [
            BloomShardTask(number, work.requested, ids[shard], tuple((p.path, p.size, p.batch) for p in portions))
            for number, ((_, shard), portions) in enumerate(found.items())
        ]
        return {BLOOM_FILTERS: tuple(stat for result in work.run(tasks) for stat in result.stats)}
