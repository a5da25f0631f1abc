"""Tag keyed records with the file group that holds their key, and count them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pudi.context import Storage
from pudi.context.runtime import cached_property
from pudi.engine.spark.buckets import bucket_of
from pudi.engine.spark.columns import DATA, FILE_ID, HASH, THERE
from pudi.engine.spark.file_tasks import FINGERPRINT_SQL, Fingerprint
from pudi.engine.spark.files import CannotReadNatively, NativeFiles
from pudi.engine.spark.lookups import (
    LOCATION_SCHEMA,
    Bins,
    by_file_group,
    is_small,
    look_up,
    look_up_records,
    older_than_stored,
    places_by_index,
    struct_of,
)
from pudi.engine.spark.read_tasks import KeyTasks
from pudi.engine.spark.records import Group, SparkRecords
from pudi.engine.spark.session import functions, in_workers, spark_errors, struct_type
from pudi.filegroup import FileSlice
from pudi.format import FileGroupId
from pudi.merge import DELETED
from pudi.metadata.record_index import RecordShards
from pudi.plan import Operation, WriteProfile
from pudi.schema import PARTITION_PATH, RECORD_KEY, arrow_to_spark_json
from pudi.schema.arrays import groups_of, one_array, take
from pudi.schema.spark_types import quote
from pudi.tagging import AnyBuckets, KeysInSlices
from pudi.task import KeyLookup, KeySearch
from pudi.task.key_search import age
from pudi.task.write import LEAVING

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
    live: KeysInSlices

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return rows of `LOCATION_SCHEMA` with two columns: whether the key is there, and the age of the slice."""
        received = [batch for batch in batches if batch.num_rows]
        if not received:
            return
        rows = pa.Table.from_batches(received).select(LOCATION_SCHEMA.names).cast(LOCATION_SCHEMA)
        places = {each.file_slice.group: each for each in self.lookups}
        for (partition, file_id), numbers in groups_of(rows, [PARTITION_PATH, FILE_ID]):
            own = take(rows, numbers)
            lookup, there = places[FileGroupId(partition, file_id)], np.ones(own.num_rows, dtype=bool)
            if lookup.merged is not None:
                keys = one_array(own[RECORD_KEY])
                there[:] = False
                there[self.live.find(self.storage, lookup.merged, keys)] = True
            aged = pa.repeat(pa.scalar(age(lookup.file_slice)[0]), own.num_rows)
            yield from pa.table([*own.columns, pa.array(there), aged], schema=_SCHEMA).to_batches()


_BROADCAST_BYTES = 128 << 20
"""Size up to which keys are sent to every node instead of both sides being shuffled."""
_HASH_BYTES, _LOCATION_BYTES = 32, 200
"""About what one key takes in a broadcast: its hash alone; with partition path and file id."""

_KEY_SCHEMA = pa.schema([(RECORD_KEY, pa.string()), (PARTITION_PATH, pa.string())])
_PLACES = "_pudi_places"
_OWN = "_pudi_own"
_MOVES = "_pudi_moves"
_PLACED = "_pudi_placed"


@dataclass(frozen=True)
class SparkTagged:
    """Tagged records.

    Args:
        records: the records.
        frame: the records with `FILE_ID`, null where the key is in no file; a key that is in several comes with each.
            Partition paths are those that records go to, with `LEAVING` where they leave for another one.
        counted: a frame with partition path, `FILE_ID` and `HASH` of the same rows that costs less; None for none.
    """

    records: SparkRecords
    frame: Any
    counted: Any = None

    @cached_property
    def groups(self) -> Mapping[tuple[str, str | None], Group]:
        """Counts by partition path and file id."""
        if self.frame is self.records.keyed:
            return {(partition, None): group for partition, group in self.records.groups.items()}
        return {(row[0], row[1]): Group(row[2], Fingerprint(row[3], row[4])) for row in self._counts}

    @property
    def movers(self) -> bool:
        """Whether a record goes to another partition than one that holds its key, where `counted` says so."""
        return self.frame is not self.records.keyed and any(row[5] for row in self._counts)

    @cached_property
    def _counts(self) -> list[Any]:
        counted = self.frame if self.counted is None else self.counted
        sql = functions(counted)
        moves = f"bool_or({_MOVES})" if _MOVES in counted.columns else "false"
        with spark_errors(self.records.spec.table, "looking for the records' keys"):
            counts = [sql.expr(count) for count in ("count(1)", *FINGERPRINT_SQL, moves)]
            found: list[Any] = counted.groupBy(PARTITION_PATH, FILE_ID).agg(*counts).collect()
        return found

    @property
    def profile(self) -> WriteProfile:
        """Counts for the planner."""
        return WriteProfile(
            updates={(p, f): group.records for (p, f), group in self.groups.items() if f is not None},
            inserts={p: group.records for (p, f), group in self.groups.items() if f is None},
        )

    def known_only(self) -> SparkTagged:
        """Return the records whose key exists already."""
        return SparkTagged(self.records, self.frame.where(f"{FILE_ID} IS NOT NULL"))

    def new_only(self) -> SparkTagged:
        """Return the records without those whose key exists already."""
        return SparkTagged(self.records, self.frame.where(f"{FILE_ID} IS NULL"))


def tag(records: SparkRecords, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch) -> SparkTagged:
    """Find the records' file groups; see `pudi.task.engine.Engine`."""
    with spark_errors(records.spec.table, "looking for the records' keys"):
        if search.index.buckets is not None:
            return _bucketed(records, search.index.buckets)
        if not lookups:
            return SparkTagged(records, records.keyed)
        if search.index.is_global:
            return _tag_global(records, storage, lookups, search)
        located = live_places(records, _located(records, storage, lookups, search), storage, lookups, search)
        return SparkTagged(records, _placed(records, located, PARTITION_PATH, RECORD_KEY).drop(THERE))


def finds_movers(records: SparkRecords, storage: Storage, slices: Sequence[FileSlice]) -> bool:
    """Whether a slice of another partition than a record's holds a key of the same hash."""
    if not slices or not records.counts:
        return False
    spark, sql, at = records.keyed.sparkSession, functions(records.keyed), "_pudi_at"
    with spark_errors(records.spec.table, "looking for the records' keys in other partitions"):
        own = records.keyed.selectExpr(f"xxhash64({RECORD_KEY}) AS {at}", f"xxhash64({PARTITION_PATH}) AS {_OWN}")
        stored = _stored_keys(spark, sql, storage, slices)
        stored = stored.selectExpr(f"xxhash64({RECORD_KEY}) AS {HASH}", f"xxhash64({PARTITION_PATH}) AS {_PLACED}")
        own = _small(sql, own, sum(records.counts.values()) * _HASH_BYTES)
        found = stored.join(own, sql.expr(f"{HASH} = {at} AND {_PLACED} != {_OWN}"), "left_semi")
        return bool(found.agg(sql.expr("count(1)")).collect()[0][0])


def _bucketed(records: SparkRecords, buckets: AnyBuckets) -> SparkTagged:
    """Records with their buckets."""
    keyed = records.keyed
    return SparkTagged(records, keyed.withColumn(FILE_ID, bucket_of(keyed, buckets)))


def _located(records: SparkRecords, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch) -> Any:
    """Partition path, record key and file id of those of the records' keys that slices hold, kept.

    With a record index, tasks read its file groups. With bloom filters, or keys in log files that base files lack,
    tasks read the slices with the keys at hand.
    Otherwise, and with too many keys for the size of the files, the files' keys are filtered by the hashes of the
    records, which are small enough to broadcast; only the remaining keys are joined with the records.
    """
    slices = [lookup.file_slice for lookup in lookups]
    total = sum(records.counts.values())
    sql = functions(records.keyed)
    bins = Bins.of(slices, search.index)
    if search.records is not None:
        located = records.keep(look_up_records(records.keyed, search.records, slices))
    elif search.index.late is not None or (search.index.bloom and bins.pay(records.counts)):
        located = records.keep(look_up(records.keyed, storage, bins, search))
    else:
        made_of = RECORD_KEY if search.index.is_global else f"{PARTITION_PATH}, {RECORD_KEY}"
        wanted = records.keyed.selectExpr(f"xxhash64({made_of}) AS {HASH}")
        stored = _stored_keys(records.keyed.sparkSession, sql, storage, slices)
        stored = stored.selectExpr("*", f"xxhash64({made_of}) AS {HASH}")
        hashes = _small(sql, wanted, total * _HASH_BYTES)
        located = records.keep(stored.join(hashes, [HASH], "left_semi").drop(HASH))
    return located


def _placed(records: SparkRecords, located: Any, *identity: str) -> Any:
    """Records with `THERE` and `FILE_ID` of each place that holds their key, null where none does.

    The join key is one long, which Spark looks up faster than texts. Texts are compared where longs are equal, and not
    by an equality, for which Spark would add a join key.

    Args:
        records: the records.
        located: what `_located` gave.
        identity: what makes a key one: its text, or that and its partition.
    """
    keyed = records.keyed
    asked, at = "_pudi_asked", "_pudi_at"
    texts = {RECORD_KEY: "_pudi_key_there", PARTITION_PATH: THERE}
    hashed = f"xxhash64({', '.join(identity)})"
    there = located.selectExpr(f"{hashed} AS {at}", FILE_ID, *(f"{name} AS {other}" for name, other in texts.items()))
    there = _small(functions(keyed), there, sum(records.counts.values()) * _LOCATION_BYTES)
    same = " AND ".join(f"startswith({n}, {texts[n]}) AND length({n}) <= length({texts[n]})" for n in identity)
    meets = functions(keyed).expr(f"{asked} = {at} AND {same}")
    found = keyed.selectExpr("*", f"{hashed} AS {asked}").join(there, meets, "left")
    return found.drop(asked, at, texts[RECORD_KEY])


def _placed_by_index(records: SparkRecords, index: RecordShards, slices: Sequence[FileSlice]) -> Any:
    """Records as `_placed` returns them, by a small record index over the whole table, kept as one struct."""
    placed = places_by_index(records.keyed, index, slices, sum(records.counts.values()))
    whole = f"STRUCT({', '.join(placed.columns)}) AS {_PLACED}"
    return records.keep(placed.selectExpr(whole)).selectExpr(
        *(f"{_PLACED}.{name} AS {name}" for name in placed.columns)
    )


def _tag_global(
    records: SparkRecords, storage: Storage, lookups: Sequence[KeyLookup], search: KeySearch
) -> SparkTagged:
    """Records with where they go, by a global index: the rules are those of `pudi.task.global_index`.

    Unless a record moves to another partition, the outcome for a key in one place is independent of other places. So
    records are grouped by key and compared with stored ones only if the counts show a move.
    """
    keyed = records.keyed
    if search.records is not None and is_small(search.records):
        placed = _placed_by_index(records, search.records, [lookup.file_slice for lookup in lookups])
        located = placed.where(f"{FILE_ID} IS NOT NULL").selectExpr(f"{THERE} AS {PARTITION_PATH}", RECORD_KEY, FILE_ID)
    else:
        located = live_places(records, _located(records, storage, lookups, search), storage, lookups, search)
        placed = _placed(records, located, RECORD_KEY)
    deleted = f"coalesce({DATA}.{quote(DELETED)}, false)" if _marks_deletes(search) else "false"
    tagged = _kept(records, placed, search, deleted)
    if not search.moves or not tagged.movers:
        return tagged
    places = located.groupBy(RECORD_KEY).agg(
        functions(keyed).expr(f"collect_set(struct({PARTITION_PATH} AS p, {FILE_ID} AS f)) AS {_PLACES}")
    )
    places = _small(functions(keyed), places, sum(records.counts.values()) * _LOCATION_BYTES)
    found = keyed.join(places, [RECORD_KEY], "left").withColumnRenamed(PARTITION_PATH, _OWN)
    if search.rule.compares:
        moving = found.where(_moving(deleted))
        names = [quote(name) for name in search.rule.ordering_schema(search.schema).names]
        fields = [f"{DATA}.{name} AS {name}" for name in names]
        moving = moving.selectExpr(RECORD_KEY, _OWN, *fields, f"explode({_PLACES}) AS x")
        moving = moving.where(f"x.p != {_OWN}").selectExpr(
            RECORD_KEY, *names, f"x.p AS {PARTITION_PATH}", f"x.f AS {FILE_ID}"
        )
        older = older_than_stored(moving, storage, [look.merged or look.file_slice for look in lookups], search)
        found = found.join(records.keep(older.distinct()), [RECORD_KEY], "left_anti")
    tagged = found.selectExpr(*_carried(keyed), f"inline({_targets(deleted)})")
    return SparkTagged(records, tagged, tagged.select(PARTITION_PATH, FILE_ID, HASH))


def _kept(records: SparkRecords, found: Any, search: KeySearch, deleted: str) -> SparkTagged:
    """Records with a row for each place that holds their key, or one where none does, as if none moved."""
    moves = f"NOT {deleted} AND coalesce({THERE} != {PARTITION_PATH}, false)"
    if search.operation is Operation.DELETE:  # nothing where the key is nowhere
        found, moves = found.where(f"{FILE_ID} IS NOT NULL"), "false"
    place = f"coalesce({THERE}, {PARTITION_PATH}) AS {PARTITION_PATH}"
    tagged = found.selectExpr(*_carried(records.keyed), place, FILE_ID, f"{moves} AS {_MOVES}")
    return SparkTagged(records, tagged.drop(_MOVES), tagged.select(PARTITION_PATH, FILE_ID, HASH, _MOVES))


def _moving(deleted: str) -> str:
    """Whether a record goes to another partition than one that holds its key."""
    return f"(NOT {deleted} AND coalesce(exists({_PLACES}, x -> x.p != {_OWN}), false))"


def _carried(keyed: Any) -> list[str]:
    """Columns of keyed records that go on with them, but for their partition path."""
    return [name for name in keyed.columns if name != PARTITION_PATH]


def _targets(deleted: str) -> str:
    """Return the places of one record that may move: an array of partition path, `FILE_ID` and `LEAVING`."""

    def target(partition: str, file_id: str, leaving: str) -> str:
        return f"named_struct('{PARTITION_PATH}', {partition}, '{FILE_ID}', {file_id}, '{LEAVING}', {leaving})"

    stay = f"transform({_PLACES}, x -> {target('x.p', 'x.f', 'false')})"
    new = f"array({target(_OWN, 'CAST(NULL AS STRING)', 'false')})"
    away = f"transform({_PLACES}, x -> {target('x.p', 'x.f', f'x.p != {_OWN}')})"
    at_home = f"exists({_PLACES}, x -> x.p = {_OWN})"
    return (
        f"CASE WHEN {_PLACES} IS NULL THEN {new} WHEN {deleted} THEN {stay} WHEN {at_home} THEN {away} "
        f"ELSE concat({away}, {new}) END"
    )


def _marks_deletes(search: KeySearch) -> bool:
    return search.operation is not Operation.DELETE and DELETED in search.schema.names


def _small(sql: Any, frame: Any, size: int) -> Any:
    return sql.broadcast(frame) if size <= _BROADCAST_BYTES else frame


def _stored_keys(spark: Any, sql: Any, storage: Storage, slices: Sequence[Any]) -> Any:
    """Partition path, record key and file id of every record in the slices."""
    computed = any(each.base is not None and each.base.keys is not None for each in slices)
    try:
        frame = None if computed else NativeFiles(spark, storage).frame(slices, _KEY_SCHEMA)
    except CannotReadNatively:
        frame = None
    if frame is None:
        numbers = spark.range(0, len(slices), 1, len(slices)).select(sql.col("id"))
        schema = struct_type(json.loads(arrow_to_spark_json(LOCATION_SCHEMA)))
        return in_workers(numbers, KeyTasks(storage, slices).run, schema)
    # the file's name is what says the file group; its column of that name may be another writer's
    file_id = f"substring_index(_metadata.file_name, '_', 1) AS {FILE_ID}"
    return frame.selectExpr(PARTITION_PATH, RECORD_KEY, file_id)
