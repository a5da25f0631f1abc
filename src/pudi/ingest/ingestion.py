"""`Ingestion`: batches from a source into a table, each in one commit that says where to go on (Hudi Streamer)."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pudi.client import CommitResult
from pudi.commit.conditions import SoleProgress, is_gone
from pudi.config import WriteOptions
from pudi.config.arguments import count_given, names_given, path_given, seconds_given, text_given
from pudi.context import Context
from pudi.engine import is_spark_frame
from pudi.engine.spark.session import check_session
from pudi.errors import CorruptError, InvalidArgumentError, TableExistsError
from pudi.ingest.files import TEXT_FORMATS, FileSource, without_keys
from pudi.ingest.source import BadRecord, Batch, Checkpoint, Source, is_stated, resumed
from pudi.ingest.table_source import TableSource
from pudi.ingest.transforms import check_transforms, transformed
from pudi.plan import Operation
from pudi.storage import canonical_root
from pudi.table import Table, create
from pudi.table.base import client_of
from pudi.table.create import check_engine, first_write
from pudi.table.table import find_table


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Report of a batch.

    Attributes:
        at: when it began, ISO text in UTC.
        origin: where its records come from.
        bad: number of bad records, which are in the error table.
        checkpoint: where the next one goes on.
        result: its commit; None if no records were left to write.
        deleted: the commit before that, which deleted what the source deleted; None if there was nothing.
        read_s: seconds for reading and transforming.
        write_s: seconds for writing.
        more: whether more is waiting.
    """

    at: str
    origin: str
    bad: int
    checkpoint: str
    result: CommitResult | None
    read_s: float
    write_s: float
    more: bool
    deleted: CommitResult | None = None

    def to_json(self) -> str:
        """Return it as a line of JSON."""
        done, gone = self.result, self.deleted
        last = done or gone
        counts = {
            "instant": last and last.instant,
            "inserted": done.records_inserted if done else 0,
            "updated": done.records_updated if done else 0,
            "deleted": sum(each.records_deleted for each in (done, gone) if each),
            "bytes": done.bytes_written if done else 0,
            "failed_services": {k: v for each in (gone, done) if each for k, v in each.failed_services.items()},
        }
        own = {name: getattr(self, name) for name in ("at", "origin", "bad", "checkpoint", "more")}
        times = {"read_s": round(self.read_s, 3), "write_s": round(self.write_s, 3)}
        return json.dumps({**own, **counts, **times}, ensure_ascii=False)


_log = logging.getLogger(__name__)

OPERATIONS: Final = ("upsert", "insert", "bulk_insert", "insert_overwrite", "delete")
_ERROR_COLUMNS: Final = pa.schema(
    [
        ("error_id", pa.string()),
        ("source", pa.string()),
        ("position", pa.int64()),
        ("record", pa.string()),
        ("error", pa.string()),
        ("taken_at", pa.string()),
    ]
)
_LOOK_S: Final = 0.2
_RETRIES: Final = "10"
"""Retries of the error table's rows after conflicts with another ingestion, on whose rows they don't depend."""


@dataclass(slots=True)
class Ingestion:
    """Takes batches of a source into a table. The first one makes the table if it isn't there.

    The commit of a batch says where the next one goes on, under Hudi Streamer's keys: what is committed is never taken
    in again, and what isn't is, whenever the process dies. Only one ingestion may write a table at a time: of two
    that take one batch, the second is refused.

    Args:
        source: where records come from.
        target: the table's root.
        operation: `upsert`, `insert`, `bulk_insert`, `insert_overwrite` or `delete` (by key).
        record_key: as of `pudi.create`, for a new table; so are the next ones.
        partition_by: columns that partition it.
        ordering: columns that order versions of a record.
        table_type: `cow` or `mor`.
        name: its name.
        schema: columns to read formats without types as, and of a new table; None for those of the table, or those
            that the first batch has.
        transforms: functions from records to records, one after the other.
        error_table: root of a table for bad records: those that can't be parsed, and those whose key is null; None
            refuses a batch with some.
        checkpoint: where to begin instead of where the table says: a checkpoint of the source, or `earliest`. It counts
            once: a job that starts again with the same one goes on.
        spark: a session to read and write with; None for this machine.
        options: Hudi's option keys for the table and its writes.
        storage_options: credentials and settings of the target's storage.
        report: gets the report of each batch.
        context: the clock.
    """

    source: Source
    target: str | os.PathLike[str]
    operation: str = "upsert"
    record_key: str | Sequence[str] | None = None
    partition_by: str | Sequence[str] | None = None
    ordering: str | Sequence[str] | None = None
    table_type: str = "cow"
    name: str | None = None
    schema: pa.Schema | None = None
    transforms: Sequence[Callable[[Any], Any]] = ()
    error_table: str | os.PathLike[str] | None = None
    checkpoint: str | None = None
    spark: Any = None
    options: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] | None = None
    report: Callable[[BatchReport], None] | None = None
    context: Context = field(default_factory=Context)
    _progress: SoleProgress | None = field(default=None, init=False, repr=False)
    _reached: Checkpoint | None = field(default=None, init=False, repr=False)
    _last: str | None = field(default=None, init=False, repr=False)
    _stopped: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        root = path_given(self.target, "target")
        if self.operation not in OPERATIONS:
            raise InvalidArgumentError(f"operation={self.operation!r}: it is {', '.join(OPERATIONS)}")
        if not hasattr(self.source, "next"):
            raise InvalidArgumentError(f"source is FileSource(…), TableSource(…), KafkaSource(…), not {self.source!r}")
        if self.schema is not None and not isinstance(self.schema, pa.Schema):
            raise InvalidArgumentError(f"schema is a pyarrow.Schema, not a {type(self.schema).__name__}")
        if self.checkpoint is not None:
            text_given(self.checkpoint, "checkpoint")
        if self.report is not None and not callable(self.report):
            raise InvalidArgumentError(f"report is a function of a BatchReport, not {type(self.report).__name__}")
        check_transforms(self.transforms)
        if self.spark is not None:
            check_session(self.spark)
        target = canonical_root(root)
        if self.error_table is not None and canonical_root(path_given(self.error_table, "error_table")) == target:
            raise InvalidArgumentError("error_table is the target: give a root of its own", table=target)
        if isinstance(self.source, TableSource) and canonical_root(os.fspath(self.source.path)) == target:
            raise InvalidArgumentError("source and target are one table", table=target)
        table = self._table()
        if table is not None:
            self._check_columns(table)
        elif self.record_key is None and self.operation in {"upsert", "delete"}:
            raise InvalidArgumentError(f"{self.operation} into a new table needs record_key", table=target)

    def stop(self) -> None:
        """End `run` after the batch that it is at."""
        self._stopped = True

    def run(self, *, continuous: bool = False, interval_s: float = 10.0, max_batches: int | None = None) -> int:
        """Take batches in.

        Args:
            continuous: whether to wait for more when all is taken in; `stop` ends it.
            interval_s: seconds between two looks at a source that had nothing.
            max_batches: number of batches after which it ends.

        Returns:
            The number of batches.

        Raises:
            InvalidArgumentError: no number of seconds, or no number of batches above 0.
            PudiError: a batch failed; those before it are committed.
        """
        seconds_given(interval_s, "interval_s")
        if max_batches is not None:
            count_given(max_batches, "max_batches")
        count = 0
        while not self._stopped and (max_batches is None or count < max_batches):
            done = self.run_once()
            if done is not None:
                count += 1
            elif continuous:
                self._wait(interval_s)
            else:
                break
        table = self._table()
        if table is not None:
            table.wait_for_services()
        return count

    def run_once(self) -> BatchReport | None:
        """Take one batch in; None if the source has nothing.

        Raises:
            CorruptError: a record is bad, and there is no error table.
            InvalidArgumentError: the table doesn't say where to go on; see `checkpoint`.
            PudiError: the source can't be read, or the table written.
        """
        clock = self.context.clock
        began, at = clock.monotonic(), datetime.fromtimestamp(clock.now_ms() / 1000, timezone.utc).isoformat()
        table = self._table()
        if self._last is not None and (table is None or is_gone(client_of(table), table.timeline, self._last)):
            self._progress = self._reached = self._last = None  # the table says where to go on, as after a restart
        if self._progress is None:
            self._progress = SoleProgress(is_stated, set() if table is None else _commits(table))
        after = self._reached or resumed(None if table is None else client_of(table), self.checkpoint)
        batch = self.source.next(after, self._columns(table), self.spark)
        if batch is None:
            return None
        try:
            done = self._taken_in(batch, table, began, at)
        finally:
            if batch.done is not None:
                batch.done()
        self._reached = batch.checkpoint
        if after.value is None and done.result is None and getattr(self.source, "start", "") == "latest":
            _log.warning(
                "%s: nothing was written, so no commit states the place that was reached. A job that starts before one "
                "does begins at the latest offset again, and misses what came meanwhile: give it checkpoint=%r",
                self.target,
                done.checkpoint,
            )
        if self.report is not None:
            self.report(done)
        return done

    def _taken_in(self, batch: Batch, table: Table | None, began: float, at: str) -> BatchReport:
        clock = self.context.clock
        data, bad = self._checked(transformed(batch.data, self.transforms), batch, table)
        gone = batch.deleted if table is not None and self.operation == "upsert" else None
        gone = None if gone is None else transformed(gone, self.transforms)
        read = clock.monotonic()
        if bad:
            self._keep(bad, at)
        result = deleted = None
        if table is not None and gone is not None:  # first: a record may be there again, or in another partition
            extra = batch.checkpoint.metadata(table.config.version) if data is None else None
            deleted = self._noted(table._write(gone, Operation.DELETE, self.options, extra, None, self._progress))
        if data is not None:
            if table is None:
                check_engine(data, str(self.target))
                table = self._create(data)
                with first_write(table):
                    result = self._write(table, data, batch)
            else:
                result = self._write(table, data, batch)
        return BatchReport(
            at,
            batch.origin,
            len(bad),
            batch.checkpoint.value or "",
            result,
            read - began,
            clock.monotonic() - read,
            batch.more,
            deleted,
        )

    def _table(self) -> Table | None:
        return find_table(self.target, self.options, self.storage_options)

    def _check_columns(self, table: Table) -> None:
        """Refuse columns of a new table that a table which is there contradicts."""
        config = table.config
        for name, given, own in (
            ("record_key", self.record_key, config.record_key_fields),
            ("partition_by", self.partition_by, config.partition_fields),
            ("ordering", self.ordering, config.ordering_fields),
        ):
            wanted = names_given(given, name)
            same = config.has_partitioning(wanted) if name == "partition_by" else wanted == tuple(own)
            if given is not None and not same:
                has = f"the table has {', '.join(own)}" if own else "the table has none"
                raise InvalidArgumentError(
                    f"{name}={', '.join(wanted)} is for a new table, and {has}: leave it out",
                    table=table.path,
                )

    def _columns(self, table: Table | None) -> pa.Schema | None:
        """Return the columns that formats without types are read as."""
        if self.schema is not None:
            return self.schema
        return None if table is None or self.transforms else table.schema

    def _checked(self, data: Any, batch: Batch, table: Table | None) -> tuple[Any, list[BadRecord]]:
        """Return the records to write, None without any, and the bad ones."""
        bad = list(batch.bad)
        data, without_key = self._with_keys(data, table, batch)
        bad += without_key
        if not is_spark_frame(data):
            data = _without_untyped(data, None if table is None else table.schema)
            data = data if data.num_rows else None
        if bad and self.error_table is None:
            first, keyed = bad[0], bad[0] not in without_key
            count = f"{len(bad)} record{'' if len(bad) == 1 else 's'}"
            which = self._place(first) if keyed else f", of {batch.origin}, {first.record}"
            raise CorruptError(
                f"{count} of the batch can't be taken in, the first{which}: {first.error}; nothing of the "
                "batch was written. Mend them, or give an error table",
                path=first.source if keyed else None,
            )
        return data, bad

    def _place(self, bad: BadRecord) -> str:
        """Return the place of a bad record in its source, for an error; Spark doesn't always tell."""
        lines = isinstance(self.source, FileSource) and self.source.format in TEXT_FORMATS
        return "" if bad.position < 0 else f" at {'line' if lines else 'position'} {bad.position}"

    def _with_keys(self, data: Any, table: Table | None, batch: Batch) -> tuple[Any, list[BadRecord]]:
        """Return the records with a key, and those without, if they are kept."""
        keys = names_given(self.record_key, "record_key") if table is None else table.config.record_key_fields
        on_spark = is_spark_frame(data)
        known = [name for name in keys if name in (data.columns if on_spark else data.column_names)]
        if not known or (self.error_table is None and on_spark):  # there it would cost a job
            return data, []
        data, text = without_keys(data, known) if on_spark else _without_keys(data, known)
        why = f"the record key ({', '.join(keys)}) is null"
        place = f"{batch.origin}, up to {batch.checkpoint.value}"
        return data, [BadRecord(place, n, each, why) for n, each in enumerate(text)]

    def _create(self, data: Any) -> Table:
        schema = data.schema if self.schema is None or self.transforms else self.schema
        try:
            return create(
                self.target,
                schema,
                record_key=self.record_key,
                partition_by=self.partition_by,
                ordering=self.ordering,
                table_type=self.table_type,
                name=self.name,
                options=self.options,
                storage_options=self.storage_options,
            )
        except TableExistsError:  # another process has made it meanwhile; if it took the batch, the commit is refused
            table = Table(self.target, options=self.options, storage_options=self.storage_options)
            self._check_columns(table)
            return table

    def _write(self, table: Table, data: Any, batch: Batch) -> CommitResult | None:
        extra = batch.checkpoint.metadata(table.config.version)
        fill = {WriteOptions.fill_missing.key: "true"}
        options = {**fill, **self.options} if self.operation != "delete" else dict(self.options)
        operation = Operation[self.operation.upper()]
        return self._noted(table._write(data, operation, options, extra, None, self._progress))

    def _noted(self, done: CommitResult | None) -> CommitResult | None:
        """Note a commit as this process's own."""
        if done is not None and self._progress is not None:
            self._progress.seen.add(done.instant)
            self._last = done.instant
        return done

    def _keep(self, bad: Sequence[BadRecord], at: str) -> None:
        """Put bad records into the error table; a batch that comes again puts the same ones there."""
        assert self.error_table is not None
        errors = find_table(self.error_table, storage_options=self.storage_options)
        if errors is None:
            try:
                errors = create(
                    self.error_table, _ERROR_COLUMNS, record_key="error_id", storage_options=self.storage_options
                )
            except TableExistsError:  # made meanwhile by another process
                errors = Table(self.error_table, storage_options=self.storage_options)
        if errors.config.record_key_fields != (_ERROR_COLUMNS.names[0],):
            raise InvalidArgumentError(
                f"it's no table of bad records, which has the columns {', '.join(_ERROR_COLUMNS.names)}: give another "
                "error table",
                table=errors.path,
            )
        rows = [{"error_id": f"{each.source}#{each.position}", **asdict(each), "taken_at": at} for each in bad]
        errors.upsert(pa.Table.from_pylist(rows, _ERROR_COLUMNS), options={WriteOptions.conflict_retries.key: _RETRIES})

    def _wait(self, seconds: float) -> None:
        clock = self.context.clock
        end = clock.monotonic() + seconds
        while not self._stopped and (left := end - clock.monotonic()) > 0:
            clock.sleep(min(left, _LOOK_S))


def _commits(table: Table) -> set[str]:
    return {each.requested for each in table.timeline.commits}


def _without_keys(data: pa.Table, keys: Sequence[str]) -> tuple[pa.Table, list[str]]:
    """Return the records with a key, and the others as JSON texts."""
    lost = pc.is_null(data[keys[0]])
    for name in keys[1:]:
        lost = pc.and_(lost, pc.is_null(data[name]))
    if not pc.any(lost).as_py():
        return data, []
    rows = data.filter(lost).to_pylist()
    return data.filter(pc.invert(lost)), [json.dumps(row, default=str, ensure_ascii=False) for row in rows]


def _without_untyped(data: pa.Table, known: pa.Schema | None) -> pa.Table:
    """Return records without columns that are null in all of them and that the table doesn't have."""
    untyped = [each.name for each in data.schema if pa.types.is_null(each.type)]
    return data.drop_columns([name for name in untyped if known is None or name not in known.names])
