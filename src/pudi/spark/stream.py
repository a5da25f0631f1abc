"""`pudi.spark.batch_writer`: what `foreachBatch` of a streaming query takes; a batch that comes again is skipped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pudi.action import CommitResult, MetaClient
from pudi.config import CompactionOptions, WriteOptions, resolve
from pudi.config.option import text_of
from pudi.errors import CorruptError, TableNotFoundError
from pudi.spark.job import SaveMode, WriteJob

CHECKPOINT_KEY = "_hudi_streaming_sink_checkpoint"
"""Key in a commit's extra metadata: a JSON map from writer to batch id (HoodieStreamingSink.SINK_CHECKPOINT_KEY)."""


@dataclass(frozen=True, slots=True)
class _BatchWriter:
    job: WriteJob
    identifier: str

    def __call__(self, frame: Any, batch_id: int) -> CommitResult | None:
        """Write one batch, unless it or a later one was committed already."""
        last = self._last_batch()
        if last is not None and batch_id <= last:
            return None
        extra = {CHECKPOINT_KEY: json.dumps({self.identifier: str(batch_id)}, separators=(",", ":"))}
        return self.job.run(frame, SaveMode.APPEND, extra)

    def _last_batch(self) -> int | None:
        """The newest batch of this writer that was committed (CommitUtils.getValidCheckpointForCurrentWriter)."""
        try:
            meta = MetaClient.open(self.job.path, self.job.storage_options, self.job.options)
        except TableNotFoundError:
            return None
        for instant in reversed(meta.store.load().commits):
            text = (meta.store.read_commit_metadata(instant).extra_metadata or {}).get(CHECKPOINT_KEY)
            if not text:
                continue
            try:
                batches = json.loads(text)
                if self.identifier in batches:
                    return int(batches[self.identifier])
            except (ValueError, TypeError) as error:
                raise CorruptError(
                    f"the commit's {CHECKPOINT_KEY} is no JSON map of batch numbers: {text[:100]!r}",
                    table=meta.storage.root,
                    instant=instant.requested,
                ) from error
        return None


def batch_writer(
    path: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    **options: str | bool | int | float,
) -> Callable[[Any, int], CommitResult | None]:
    """A function for `foreachBatch`: `df.writeStream.foreachBatch(pudi.spark.batch_writer(path, **hudi)).start()`.

    Each batch is one commit that stores the batch id, as Apache Hudi's streaming sink does. A batch that is repeated
    after a restart is skipped, whichever of the two wrote it. An empty batch makes no commit. The first batch creates
    the table if it does not exist. Compactions of merge-on-read tables run beside the batches, unless the options say
    otherwise; `Table.wait_for_services` waits for them after the end of the query.

    Args:
        path: the table's root.
        storage_options: credentials and settings of the storage.
        options: Hudi's option keys; several queries that write one table need
            `hoodie.datasource.write.streaming.checkpoint.identifier`, each its own.

    Raises:
        InvalidArgumentError: an option is wrong.
        NotSupportedError: an option asks for what this release lacks.
    """
    given = _with_compaction({key: text_of(value) for key, value in options.items()})
    job = WriteJob(os.fspath(path), given, storage_options)
    return _BatchWriter(job, given.get(WriteOptions.stream_identifier.key, WriteOptions.stream_identifier.default))


def _with_compaction(given: Mapping[str, str]) -> dict[str, str]:
    """Options with those by which streams compact beside their batches (HoodieStreamingSink, ASYNC_COMPACT_ENABLE)."""
    resolved = resolve(given)
    compacts = resolved[CompactionOptions.services] and not resolved[CompactionOptions.not_in_streams]
    asked = resolved.explicit(CompactionOptions.run_async)
    wanted = compacts if asked is None else asked and not resolved[CompactionOptions.not_in_streams]
    return {**given, CompactionOptions.run_async.key: text_of(wanted)}
