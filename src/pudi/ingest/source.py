"""Define sources of ingestions: they give batches, each with the checkpoint after it.

Commits keep checkpoints under Hudi Streamer's keys, so that either program goes on. Sources: StreamerCheckpointV1,
StreamerCheckpointV2, StreamerCheckpointUtils of Apache Hudi 1.2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from pudi.client import MetaClient, TableSnapshot
from pudi.errors import CorruptError, InvalidArgumentError
from pudi.format import Action

KEY_V1: Final = "deltastreamer.checkpoint.key"
RESET_V1: Final = "deltastreamer.checkpoint.reset_key"
KEY_V2: Final = "streamer.checkpoint.key.v2"
RESET_V2: Final = "streamer.checkpoint.reset.key.v2"
SEEN: Final = "pudi.ingest.seen"
"""pudi's own key: names of what was taken in that lies exactly at the checkpoint, JSON list."""
COMPLETION: Final = "pudi.ingest.completion"
"""pudi's own key: completion time of the commit of another table whose requested time stands under the first key."""
EARLIEST: Final = "earliest"
"""Checkpoint that begins with all that the source has."""
_SINCE: Final = 8
"""Table version from which on the second key is written."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Place in a source where an ingestion goes on.

    Attributes:
        value: the source's own text; None for the beginning.
        version: by which key it was found, 1 or 2: times of another table are requested times under the first key.
        reset: the checkpoint that a user asked for, in this commit or before; None for none.
        seen: names of what was taken in already that lies exactly at `value`.
        requested: requested time of the commit of another table that completed at `value`, which is what Hudi Streamer
            reads under the first key (HoodieIncrSource.fetchNextBatchBasedOnRequestedTime); None for other sources.
    """

    value: str | None = None
    version: int = 2
    reset: str | None = None
    seen: tuple[str, ...] = ()
    requested: str | None = None

    def metadata(self, table_version: int) -> dict[str, str]:
        """Return what a commit says of it.

        Args:
            table_version: version of the target table.
        """
        key, reset = (KEY_V2, RESET_V2) if table_version >= _SINCE else (KEY_V1, RESET_V1)
        found = {key: self.value or ""}
        if key == KEY_V1 and self.value is not None and self.requested is not None:
            found |= {key: self.requested, COMPLETION: self.value}
        if self.reset is not None:
            found[reset] = self.reset
        if self.seen:
            found[SEEN] = json.dumps(list(self.seen), ensure_ascii=False)
        return found


def is_stated(extra: Mapping[str, str]) -> bool:
    """Return whether a commit's extra metadata says where an ingestion has got to."""
    return any(extra.get(key) for key in (KEY_V1, RESET_V1, KEY_V2, RESET_V2))


def resumed(meta: MetaClient | None, wanted: str | None) -> Checkpoint:
    """Return the checkpoint to continue from: the newest commit's, unless the user gives another.

    A position that the newest such commit already has counts once, as in Hudi: a job that is started again with
    the same arguments goes on.

    Args:
        meta: the target table; None if there is none yet.
        wanted: the checkpoint that a user asks for; `earliest` for the beginning.

    Raises:
        InvalidArgumentError: the table has commits, none of which says where to go on.
        CorruptError: a commit's checkpoint can't be read.
    """
    asked = Checkpoint(None if wanted == EARLIEST else wanted, reset=wanted)
    if meta is None:
        return asked
    snapshot = TableSnapshot.load(meta)
    found = _newest(snapshot)
    if found is None and meta.store.has_history():
        snapshot = snapshot.at(snapshot.timeline.with_archived(meta.store.archived()))
        found = _newest(snapshot)
    if wanted is not None and (found is None or found.reset != wanted):
        return asked
    if found is not None:
        return found
    if snapshot.timeline.commits:
        raise InvalidArgumentError(
            "the table has commits, and none of them says where an ingestion has got to: give checkpoint='earliest' to "
            "begin with all that the source has, or the place to begin after",
            table=meta.storage.root,
        )
    return asked


def _newest(snapshot: TableSnapshot) -> Checkpoint | None:
    meta = snapshot.meta
    commits = snapshot.commits
    if meta.merges_on_read:  # as StreamerCheckpointUtils does: compactions are commits there
        commits = [each for each in commits if each.action is Action.DELTACOMMIT] or commits
    for instant in reversed(commits):
        extra = meta.store.read_commit_metadata(instant).extra_metadata or {}
        if any(extra.get(key) for key in (KEY_V2, RESET_V2)):
            return Checkpoint(extra.get(KEY_V2) or None, 2, extra.get(RESET_V2), _seen(extra, meta, instant.requested))
        if any(extra.get(key) for key in (KEY_V1, RESET_V1)):
            completion = extra.get(COMPLETION)
            value, version = (completion, 2) if completion else (extra.get(KEY_V1) or None, 1)
            return Checkpoint(value, version, extra.get(RESET_V1), _seen(extra, meta, instant.requested))
    return None


def _seen(extra: Mapping[str, str], meta: MetaClient, instant: str) -> tuple[str, ...]:
    text = extra.get(SEEN)
    if not text:
        return ()
    try:
        names: Sequence[object] = json.loads(text)
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return tuple(map(str, names))
    except ValueError:
        pass
    raise CorruptError(f"the commit's {SEEN} is no JSON list of names", table=meta.storage.root, instant=instant)


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
