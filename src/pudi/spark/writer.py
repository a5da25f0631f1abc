"""Spark's DataFrameWriter and DataStreamWriter for Hudi tables, without Hudi's JAR.

`pudi.spark.write` writes a frame, `pudi.spark.stream_writer` starts a query that writes its batches.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pudi.client import CommitResult
from pudi.config import WriteOptions, resolve
from pudi.config.arguments import text_given
from pudi.engine import is_spark_frame
from pudi.engine.spark.session import check_session, is_connect
from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError
from pudi.format import MaxBytes
from pudi.plan import Operation
from pudi.spark.builders import WriteBuilder
from pudi.spark.job import SaveMode, WriteJob
from pudi.spark.streaming.sink import BatchWriter, make_writer
from pudi.storage import open_storage

_CHECKPOINT = "checkpointLocation"
_CHECKPOINT_CONF = "spark.sql.streaming.checkpointLocation"


class FrameWriter(WriteBuilder):
    """Collects what to write and how; `save` does it. Mirrors `pyspark.sql.DataFrameWriter`.

    Args:
        frame: a Spark DataFrame, classic or Connect.
        storage_options: credentials and settings of the storage.
    """

    _does = "pudi.spark.write writes"

    def __init__(self, frame: Any, storage_options: Mapping[str, str] | None = None) -> None:
        super().__init__(storage_options)
        self._frame = frame
        self._mode = SaveMode.ERROR

    def mode(self, save_mode: str) -> FrameWriter:
        """Set what to do if there is a table: `append`, `overwrite`, `ignore` or `error` (the default).

        `overwrite` deletes the folder and creates the table again, as Hudi does; it is not atomic.

        Raises:
            InvalidArgumentError: another mode.
        """
        self._mode = SaveMode.parse(save_mode)
        return self

    def save(
        self, path: str | os.PathLike[str] | None = None, *, if_unchanged_since: str | None = None
    ) -> CommitResult | None:
        """Write the frame; create the table if it does not exist.

        Args:
            path: the table's root; option `path` where None.
            if_unchanged_since: the instant of the scan that the frame comes from (`Scan.instant`), in mode `append`:
                nothing is written where what it touches has changed since; see `Table.insert`.

        Returns:
            What was done; None when there was nothing to do.

        Raises:
            InvalidArgumentError: an option is wrong or contradicts the table, or the data doesn't fit.
            TableExistsError: there is a table, and the mode is `error`.
            NotSupportedError: an option asks for what this release lacks.
            ConflictError: another writer won; nothing of this write is visible.
            ChangedSinceError: the table has changed since `if_unchanged_since`; nothing was written.
        """
        target, options = self._target(path)
        if not target:
            raise InvalidArgumentError("save needs a path, the table's root: save('/data/trips')")
        return WriteJob(target, options, self._storage_options).run(self._frame, self._mode, since=if_unchanged_since)


def write(frame: Any, *, storage_options: Mapping[str, str] | None = None) -> FrameWriter:
    """Begin to write a DataFrame to a Hudi table: `pudi.spark.write(df).options(**hudi).mode("append").save(path)`.

    Args:
        frame: a Spark DataFrame, classic or Connect.
        storage_options: credentials and settings of the storage.
    """
    return FrameWriter(frame, storage_options)


class StreamWriter(WriteBuilder):
    """Collects what a streaming query writes and how; `start` starts it. Mirrors Spark's `DataStreamWriter`.

    Args:
        frame: a streaming DataFrame, classic or Connect.
        storage_options: credentials and settings of the storage.
    """

    _does = "pudi.spark.stream_writer writes"

    def __init__(self, frame: Any, storage_options: Mapping[str, str] | None = None) -> None:
        super().__init__(storage_options)
        self._frame = frame
        self._mode = "append"
        self._name: str | None = None
        self._trigger: dict[str, Any] = {}

    def outputMode(self, mode: str) -> StreamWriter:  # noqa: N802 - Spark's name
        """`append` (the default), `update`, or `complete`, for which the operation must be `insert_overwrite_table`."""
        wanted = text_given(mode, "output mode").lower()
        if wanted not in {"append", "update", "complete"}:
            raise InvalidArgumentError(f"output mode {mode!r}: it is append, update or complete")
        self._mode = wanted
        return self

    def queryName(self, name: str) -> StreamWriter:  # noqa: N802 - Spark's name
        """Name the query."""
        self._name = name
        return self

    def trigger(self, **trigger: Any) -> StreamWriter:
        """When batches run: `processingTime="10 seconds"` or `availableNow=True`.

        Raises:
            NotSupportedError: continuous processing or real-time mode.
        """
        refused = sorted(set(trigger) & {"continuous", "realTime"})
        if refused:
            raise NotSupportedError(
                f"trigger {refused[0]}: a Hudi commit is a batch; use processingTime or availableNow"
            )
        self._trigger = trigger
        return self

    def start(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Start the query.

        Each batch becomes one commit, as of `pudi.spark.batch_writer`.

        Args:
            path: the table's root; option `path` where None.

        Returns:
            Spark's `StreamingQuery`.

        Raises:
            InvalidArgumentError: an option is wrong, or path or checkpoint are missing.
            SchemaError: a new table lacks a column that the options name.
            NotSupportedError: an option asks for what this release lacks.
        """
        if not is_spark_frame(self._frame):
            raise InvalidArgumentError(f"stream_writer takes a streaming DataFrame, not a {type(self._frame).__name__}")
        check_session(self._frame.sparkSession)
        if not self._frame.isStreaming:
            raise InvalidArgumentError("stream_writer takes a streaming DataFrame: use pudi.spark.write(df)")
        target, options = self._target(path)
        checkpoint = options.pop(_CHECKPOINT, None)
        if not target:
            raise InvalidArgumentError("start needs a path")
        conf = self._frame.sparkSession.conf.get(_CHECKPOINT_CONF, None)
        if checkpoint is None and (conf is None or is_connect(self._frame)):
            raise InvalidArgumentError(
                f"start needs the option {_CHECKPOINT}: without the checkpoint a restarted query doesn't know what it "
                "has written",
                table=target,
            )
        writer = make_writer(target, options, self._storage_options)
        self._check_mode(options, target)
        writer.job.check_columns(self._frame.columns)
        return self._started(writer, checkpoint)

    def _check_mode(self, options: Mapping[str, str], table: str) -> None:
        replaces = resolve(options)[WriteOptions.operation].upper() == Operation.INSERT_OVERWRITE_TABLE.value
        if self._mode == "complete" and not replaces:
            raise NotSupportedError(
                f"output mode complete gives all rows with each batch: set {WriteOptions.operation} to "
                "insert_overwrite_table, or use mode update and upsert",
                table=table,
            )

    def _started(self, writer: BatchWriter, checkpoint: str | None) -> Any:
        function: Callable[[Any, int], object] = writer
        if checkpoint is not None and writer.query is None and is_connect(self._frame):
            function = _OfCheckpoint(writer, checkpoint, self._storage_options)
        stream = self._frame.writeStream.outputMode(self._mode).foreachBatch(function)
        if checkpoint is not None:
            stream = stream.option(_CHECKPOINT, checkpoint)
        if self._name is not None:
            stream = stream.queryName(self._name)
        if self._trigger:
            stream = stream.trigger(**self._trigger)
        return stream.start()


class _OfCheckpoint:
    """Writes batches of the query that a checkpoint belongs to: its id is in file `metadata` of the checkpoint.

    Args:
        writer: writes a batch.
        checkpoint: location of the checkpoint.
        storage_options: credentials and settings of its storage.
    """

    def __init__(self, writer: BatchWriter, checkpoint: str, storage_options: Mapping[str, str] | None) -> None:
        self._writer = writer
        self._checkpoint = checkpoint
        self._storage_options = storage_options

    def __call__(self, frame: Any, batch_id: int) -> CommitResult | None:
        if self._writer.query is None:
            self._writer = replace(self._writer, query=self._id())
        return self._writer(frame, batch_id)

    def _id(self) -> str:
        """The query's id, as Spark keeps it (StreamMetadata)."""
        content = open_storage(self._checkpoint, self._storage_options).read("metadata", MaxBytes.NOTE)
        try:
            return str(json.loads(content)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError("Spark's checkpoint has no query id", path=f"{self._checkpoint}/metadata") from error


def stream_writer(frame: Any, *, storage_options: Mapping[str, str] | None = None) -> StreamWriter:
    """Begin to write a streaming DataFrame to a Hudi table, on Spark 3.5 and 4.

    `pudi.spark.stream_writer(df).options(**hudi).option("checkpointLocation", folder).start(path)`.

    Args:
        frame: a streaming DataFrame, classic or Connect.
        storage_options: credentials and settings of the storage.
    """
    return StreamWriter(frame, storage_options)
