"""Leave out places that hold only a deleted copy of a key; the rule is that of `pudi.task.live_keys`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.engine.spark.columns import FILE_ID
from pudi.engine.spark.lookups import LOCATION_SCHEMA, by_file_group, struct_of
from pudi.engine.spark.records import SparkRecords
from pudi.engine.spark.session import in_workers
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import one_array, take
from pudi.tagging import KeysAfterMerging
from pudi.task import KeyLookup, KeySearch
from pudi.task.groups import groups_of
from pudi.task.live_keys import age

_LIVE, _AGE, _HOME = "_pudi_live", "_pudi_age", "_pudi_home"
_SCHEMA = LOCATION_SCHEMA.append(pa.field(_LIVE, pa.bool_())).append(pa.field(_AGE, pa.string()))


def live_places(
    records: SparkRecords, located: Any, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch
) -> Any:
    """Return the places of keys without those that hold a deleted copy, where another place counts.

    Args:
        records: the records, which hold cached frames.
        located: rows of `LOCATION_SCHEMA`, cached.
        storage: the table's files.
        lookups: the slices that were searched.
        search: the index that found the places.
    """
    live = search.index.live
    if live is None or len(lookups) < 2:
        return located
    identity = [RECORD_KEY] if search.index.is_global else [PARTITION_PATH, RECORD_KEY]
    several = located.groupBy(*identity).count().where("count > 1").select(*identity)
    if not several.limit(1).collect():
        return located
    asked = by_file_group(located.join(several, identity, "left_semi"), len(lookups))
    judged = in_workers(asked, MergeTasks(storage, tuple(lookups), live).run, struct_of(_SCHEMA))
    home = "true"
    if search.index.is_global:
        judged = judged.join(records.keyed.selectExpr(RECORD_KEY, f"{PARTITION_PATH} AS {_HOME}"), RECORD_KEY)
        home = f"{PARTITION_PATH} = {_HOME}"
    judged = records.keep(judged)
    place = f"struct({home}, {_AGE}, {PARTITION_PATH}, {FILE_ID})"
    best = judged.selectExpr(*(f"{name} AS {name}" for name in identity), f"struct({_LIVE}, {place} AS at) AS best")
    best = best.groupBy(*identity).agg({"best": "max"}).withColumnRenamed("max(best)", "best")
    gone = judged.join(best, identity).where(f"NOT {_LIVE} AND (best.{_LIVE} OR best.at != {place})")
    names = LOCATION_SCHEMA.names
    return records.keep(located.join(gone.select(*names), names, "left_anti"))


@dataclass(frozen=True, slots=True)
class MergeTasks:
    """Tells which keys slices hold after their log files are merged.

    Args:
        storage: the table's files.
        lookups: the slices.
        live: reads them.
    """

    storage: Storage
    lookups: tuple[KeyLookup, ...]
    live: KeysAfterMerging

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return rows of `LOCATION_SCHEMA` with two columns: whether the key is there, and the age of the slice."""
        received = [batch for batch in batches if batch.num_rows]
        if not received:
            return
        rows = pa.Table.from_batches(received).select(LOCATION_SCHEMA.names).cast(LOCATION_SCHEMA)
        places = {(each.file_slice.partition, each.file_slice.file_id): each for each in self.lookups}
        for (partition, file_id), numbers in groups_of(rows, [PARTITION_PATH, FILE_ID]):
            own = take(rows, numbers)
            lookup, there = places[partition, file_id], np.ones(own.num_rows, dtype=bool)
            if lookup.merged is not None:
                keys = one_array(own[RECORD_KEY])
                there[:] = False
                there[self.live.find(self.storage, lookup.merged, keys)] = True
            aged = pa.repeat(pa.scalar(age(lookup.file_slice)[0]), own.num_rows)
            yield from pa.table([*own.columns, pa.array(there), aged], schema=_SCHEMA).to_batches()
