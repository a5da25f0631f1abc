"""Define sources of ingestions: they give batches, each with the checkpoint after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from pudi.ingest.checkpoints import Checkpoint


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that can't be taken in.

    Attributes:
        source: the file, or the topic and partition.
        position: its line, row or offset there.
        record: the record as text.
        error: what is wrong.
    """

    source: str
    position: int
    record: str
    error: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are written in one commit, after a commit that deletes if the source deleted some.

    Attributes:
        data: the records: an Arrow table or a Spark DataFrame.
        checkpoint: where to go on after them.
        bad: records that can't be taken in.
        more: whether more is waiting already.
        origin: where they come from, for people.
        deleted: records that the source deleted, in the form of `data`; None if there are none.
        done: called when the batch is written, or has failed; None for nothing to do.
    """

    data: Any
    checkpoint: Checkpoint
    bad: tuple[BadRecord, ...] = ()
    more: bool = False
    origin: str = ""
    deleted: Any = None
    done: Callable[[], object] | None = None


class Source(Protocol):
    """A source of records. Two calls with one checkpoint give the same records, or more."""

    def next(self, after: Checkpoint, schema: pa.Schema | None, spark: Any) -> Batch | None:
        """Return the records that follow a checkpoint; None if there are none yet.

        Args:
            after: where to go on.
            schema: columns to read as, for formats without types; None to find them out.
            spark: a session to read with; None for this machine.

        Raises:
            PudiError: the source can't be read, or what follows the checkpoint is gone.
        """
