"""`pudi.spark.stream_changes`: a table's changes to a function, batch by batch, each once, also after a crash."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from posixpath import basename
from typing import Any, TypeVar

from pudi.client import MetaClient, TableSnapshot
from pudi.config.arguments import count_given, map_given, path_given, seconds_given
from pudi.context import Background, Context, Storage
from pudi.engine.spark.session import check_session
from pudi.errors import ConflictError, CorruptError, InvalidArgumentError, NotFoundError, TableExistsError
from pudi.format import MaxBytes
from pudi.scan.change_batches import BatchLimits, ChangeBatch, newest_offset, next_batch, refuse_other_history
from pudi.spark.streaming.batches import ChangesRequest, start_offset
from pudi.spark.streaming.sink import of_stream
from pudi.storage import canonical_root, open_storage
from pudi.table import Table

_METADATA, _OFFSETS, _COMMITS = "metadata", "offsets", "commits"
_VERSION = 1
_KEPT = 100
"""Number of batches whose files are kept (spark.sql.streaming.minBatchesToRetain)."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class NumberedBatch:
    """A batch by its number, which counts from 0."""

    number: int
    batch: ChangeBatch


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder in which a stream of changes keeps its progress; laid out as that of a Spark query.

    File `metadata` identifies stream and table, `offsets/N` states what batch N reads, `commits/N` that it's done. A
    batch without the latter is done again. Every file is created once, atomically: of two runners on one checkpoint,
    one fails at the next batch.

    Attributes:
        storage: the folder.
        id: identity of the stream.
        start: the offset that the first batch begins after.
    """

    storage: Storage
    id: str
    start: str

    @classmethod
    def open(cls, storage: Storage, context: Context, stream: Mapping[str, str], start: str) -> Checkpoint:
        """Open the checkpoint of a folder, or begin one in a folder without.

        Args:
            storage: the folder.
            context: source of the stream's identity.
            stream: what the stream reads: a later one with the same checkpoint must read the same.
            start: the offset that a new stream begins after.

        Raises:
            InvalidArgumentError: it's the checkpoint of a stream that reads something else.
            CorruptError: it can't be read.
        """
        new = {"version": _VERSION, "id": context.writer_id(), "start": start, **stream}
        try:
            storage.create(_METADATA, _encoded(new), durable=True)
        except TableExistsError:
            pass
        else:
            if any(storage.list_dir(folder)[0] for folder in (_OFFSETS, _COMMITS)):
                storage.delete([_METADATA])
                raise CorruptError("the checkpoint has batches and no file 'metadata'", path=_path(storage, _METADATA))
        found = _read(storage, _METADATA, dict)
        if found.get("version") != _VERSION:
            raise CorruptError(
                f"the checkpoint is of version {found.get('version')!r}, and this release reads {_VERSION}: if a Spark "
                "query made it, choose another folder",
                path=_path(storage, _METADATA),
            )
        for name, value in stream.items():
            if found.get(name) != value:
                raise InvalidArgumentError(
                    f"the checkpoint {storage.root} belongs to a stream with {name} {found.get(name)!r}, and this one "
                    f"has {value!r}: give each stream a checkpoint folder of its own"
                )
        return _read(storage, _METADATA, lambda found: cls(storage, str(found["id"]), _text(found["start"])))

    def last(self) -> tuple[NumberedBatch | None, bool]:
        """The last batch that was begun, and whether it is done; None before the first one.

        Raises:
            CorruptError: the checkpoint can't be read, or a batch is missing.
        """
        begun, done = self._numbers(_OFFSETS), self._numbers(_COMMITS)
        if not begun:
            if done:
                raise CorruptError("the checkpoint has no offsets", path=_path(self.storage, _OFFSETS))
            return None, False
        last, finished = max(begun), max(done, default=-1)
        if finished > last or finished < last - 1:
            raise CorruptError(
                f"batch {last} is the last one that the checkpoint has offsets of, and batch {finished} the last one "
                "that is done: files are missing",
                path=_path(self.storage, _OFFSETS),
            )
        path = f"{_OFFSETS}/{last}"
        batch = _read(self.storage, path, lambda f: ChangeBatch(_text(f["since"]), _text(f["until"]), True))
        return NumberedBatch(last, batch), finished == last

    def begin(self, batch: NumberedBatch, *, again: bool = False) -> None:
        """Note what a batch will read; `again` replaces what was noted.

        Raises:
            ConflictError: another runner has begun it.
        """
        content = _encoded({"since": batch.batch.since, "until": batch.batch.until})
        path = f"{_OFFSETS}/{batch.number}"
        if again:
            self.storage.put(path, content, durable=True)
        else:
            self._create(path, content)

    def finish(self, batch: NumberedBatch) -> None:
        """Note that a batch is done, and delete what is older than the batches that are kept.

        Raises:
            ConflictError: another runner has done it.
        """
        self._create(f"{_COMMITS}/{batch.number}", _encoded({"until": batch.batch.until}))
        old = batch.number - _KEPT
        if old >= 0:
            self.storage.delete([f"{_OFFSETS}/{old}", f"{_COMMITS}/{old}"])

    def _create(self, path: str, content: bytes) -> None:
        try:
            self.storage.create(path, content, durable=True)
        except TableExistsError as error:
            raise ConflictError(
                f"another stream uses the checkpoint {self.storage.root}: {path} is there already"
            ) from error

    def _numbers(self, folder: str) -> list[int]:
        names = (basename(info.path) for info in self.storage.list_dir(folder)[0])
        return [int(name) for name in names if name.isascii() and name.isdigit()]


def _encoded(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isdigit():
        raise ValueError(value)
    return value


def _read(storage: Storage, path: str, parse: Callable[[Any], _Value]) -> _Value:
    try:
        return parse(json.loads(storage.read(path, MaxBytes.NOTE)))
    except NotFoundError as error:
        raise CorruptError("a file of the checkpoint is gone", path=_path(storage, path)) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptError(
            "the checkpoint is damaged: restore the file from a backup, or begin again with a new checkpoint",
            path=_path(storage, path),
        ) from error


def _path(storage: Storage, path: str) -> str:
    return f"{storage.root}/{path}"


_log = logging.getLogger("pudi.spark")

BatchFunction = Callable[[Any, int], object]
"""Takes a batch's frame and number, as the function of `foreachBatch`."""


@dataclass(slots=True)
class ChangeStream:
    """A running stream of changes; named as Spark's `StreamingQuery`.

    Attributes:
        lastProgress: number, offsets and duration of the last batch that is done; None before the first one.
    """

    _spark: Any
    _meta: MetaClient
    _options: Mapping[str, str]
    _request: ChangesRequest
    _limits: BatchLimits
    _function: BatchFunction
    _checkpoint: Checkpoint
    _interval: float
    _available_now: bool
    lastProgress: dict[str, Any] | None = None  # noqa: N815 - Spark's name
    _stopping: threading.Event = field(default_factory=threading.Event)
    _error: BaseException | None = None
    _thread: Background | None = None

    def __repr__(self) -> str:
        state = "failed" if self._error is not None else "active" if self.isActive else "ended"
        return f"ChangeStream(table={self._meta.storage.root!r}, checkpoint={self._checkpoint.storage.root!r}, {state})"

    @property
    def id(self) -> str:
        """The identity of the stream, kept in its checkpoint."""
        return self._checkpoint.id

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether it runs."""
        return self._thread is not None and not self._thread.wait(0)

    def exception(self) -> BaseException | None:
        """The error that ended it; None without one."""
        return self._error

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - Spark's name
        """Wait for its end; return whether it has ended.

        Args:
            timeout: seconds; None for as long as it takes.

        Raises:
            Exception: the error that ended it.
        """
        ended = self._thread is None or self._thread.wait(timeout)
        if ended and self._error is not None:
            raise self._error
        return ended

    def stop(self) -> None:
        """End it. A batch that is running is finished first."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.wait()

    def start(self) -> ChangeStream:
        """Begin in the background."""
        self._thread = self._meta.context.executor.begin(self._run, "stream-changes", exit_seconds=0.0)
        return self

    def _run(self) -> None:
        try:
            with of_stream(self.id):
                self._run_batches()
        except BaseException as error:  # noqa: BLE001 - raised where somebody waits
            self._error = error
            _log.error("the stream of changes of %s has failed: %s", self._meta.storage.root, error)

    def _run_batches(self) -> None:
        last, done = self._checkpoint.last()
        offset = self._checkpoint.start
        if last is not None:
            refuse_other_history(TableSnapshot.load(self._meta), last.batch.until)
            offset = last.batch.until if done else self._process(last, begun=True)
        number = 0 if last is None else last.number + 1
        until = newest_offset(TableSnapshot.load(self._meta)) if self._available_now else None
        while not self._stopping.is_set():
            batch = next_batch(TableSnapshot.load(self._meta), offset, self._limits, until=until, has_read=number > 0)
            if batch is None:
                if self._available_now:
                    return
                self._stopping.wait(self._interval)
                self._meta = self._meta.reopen(self._options)
            elif batch.brings_records:
                offset = self._process(NumberedBatch(number, batch), begun=False)
                number += 1
            else:
                offset = batch.until

    def _process(self, batch: NumberedBatch, *, begun: bool) -> str:
        """Do a batch; return the offset that is reached."""
        clock = self._meta.context.clock
        began = clock.monotonic()
        found = self._request.scan_what_is_left(Table.of(self._meta, self._options), self._meta, batch.batch)
        scan, read = (None, batch.batch) if found is None else found
        if not begun or read != batch.batch:
            self._checkpoint.begin(replace(batch, batch=read), again=begun)
        started = clock.monotonic()
        if scan is not None:
            self._function(scan.to_spark(self._spark), batch.number)
        self._checkpoint.finish(replace(batch, batch=read))
        self.lastProgress = {
            "id": self.id,
            "batchId": batch.number,
            "startOffset": read.since,
            "endOffset": read.until,
            "planMs": round((started - began) * 1000),
            "durationMs": round((clock.monotonic() - began) * 1000),
        }
        return read.until


def stream_changes(
    spark: Any,
    path: str | os.PathLike[str],
    function: BatchFunction,
    *,
    checkpoint: str | os.PathLike[str],
    since: str | datetime = "earliest",
    format: str = "latest",
    columns: Sequence[str] | None = None,
    where: str | None = None,
    meta_fields: bool = True,
    available_now: bool = False,
    interval: float = 1.0,
    max_commits: int | None = None,
    max_records: int | None = None,
    fail_on_data_loss: bool = True,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> ChangeStream:
    """Give a table's changes to a function, batch by batch, beside the caller: `readStream` and `foreachBatch` in one.

    The function gets a lazy DataFrame, read by Spark's own Parquet reader, and the batch's number, counted from 0. What
    a batch reads is written to the checkpoint before the function is called, and that it's done afterwards: after a
    crash the same batch comes again, with the same number and the same rows. So the effect is exactly once if the
    function does nothing for a number that it has done already; `pudi.spark.batch_writer` does that.

    Args:
        spark: a session, 3.5 or newer, classic or Connect.
        path: the table's root.
        function: gets each batch's frame and number. Its error ends the stream.
        checkpoint: a folder of the stream's own, in any storage that a table can be in.
        since: where a new checkpoint begins: `earliest`, the whole table first; `latest`, only what is committed from
            now on; or a completion time to begin after, as of `Table.changes`.
        format: `latest`, the last version of each changed record; or `cdc`.
        columns: as in `Table.changes`.
        where: as in `Table.changes`.
        meta_fields: as in `Table.changes`.
        available_now: whether to end when all is read that the table has now.
        interval: seconds between two looks at the timeline, while there is nothing new.
        max_commits: the commits of a batch; None for no limit. The first batch from `earliest` has no limit.
        max_records: the records that commits of a batch bring, but for its first commit; None for no limit.
        fail_on_data_loss: whether it's an error if a cleaner has removed what a batch reads.
        options: Hudi's option keys, for the reads.
        storage_options: credentials and settings of the storage, for table and checkpoint.

    Raises:
        InvalidArgumentError: an argument is wrong, or the checkpoint belongs to another table.
        TableNotFoundError: there is no table.
        CorruptError: the checkpoint can't be read.
    """
    check_session(spark)
    given, root = map_given(options, "options"), path_given(path)
    if not callable(function):
        raise InvalidArgumentError(
            f"stream_changes takes a function of a batch's DataFrame and number, not {type(function).__name__}",
            table=root,
        )
    if not seconds_given(interval, "interval", root):
        raise InvalidArgumentError(f"interval={interval}: it's a number of seconds above 0", table=root)
    for name, most in (("max_commits", max_commits), ("max_records", max_records)):
        if most is not None:
            count_given(most, name, root)
    request = ChangesRequest(columns, where, format, meta_fields, fail_on_data_loss)
    table = Table(path, given, storage_options)
    meta = MetaClient.open(root, storage_options, given)
    _ = request.scan_from(table, newest_offset(TableSnapshot.load(meta))).schema  # refuses what is wrong
    stream = {"table": canonical_root(meta.storage.root), "format": format}
    folder = open_storage(checkpoint, storage_options)
    opened = Checkpoint.open(folder, meta.context, stream, start_offset(meta, since))
    opened.last()
    limits = BatchLimits(commits=max_commits, records=max_records)
    return ChangeStream(spark, meta, given, request, limits, function, opened, interval, available_now).start()
