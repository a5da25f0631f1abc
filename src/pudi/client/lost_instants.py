"""Find completed instants whose file was lost, by comparing later instants with the timeline.

A crash also leaves a pending instant, and a rollback leaves nothing. The difference is a completed instant that builds
on what the lost one wrote: no instant builds on one that isn't completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from posixpath import basename

from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.config import TableConfig
from pudi.context import FileInfo
from pudi.errors import CorruptError, NotFoundError
from pudi.filegroup import BaseFile, LogFile, bases_under, compaction_plan, open_base_file
from pudi.format import (
    WRITE_ACTIONS,
    Action,
    BaseFileName,
    LogFileName,
    WriteStat,
    is_instant_time,
    parse_data_file,
)
from pudi.schema import COMMIT_TIME
from pudi.timeline import NO_COMMIT, Instant

_BOOTSTRAP = "0000000000000"
"""Prefix of instants that stand for no moment."""


@dataclass(frozen=True, slots=True)
class LostInstant:
    """A completed instant whose completed file was lost.

    Attributes:
        requested: its requested time.
        proof: a later completed instant that builds on it.
        through: what the proof refers to: a file, or the instant itself.
        pending: its pending instant on the timeline; None if there is none.
    """

    requested: str
    proof: Instant
    through: str
    pending: Instant | None

    @property
    def text(self) -> str:
        """Describe it for a message."""
        left = "only pending files of it are left" if self.pending else "nothing of it is left on the timeline"
        return (
            f"the completed file of instant {self.requested} is gone ({left}): it had completed, since "
            f"{self.proof.action.value} {self.proof.requested} was built on it (on {self.through}). Its records are "
            "missing from reads: restore the file from a backup, or roll the table back to a state before it"
        )


def find_lost(
    snapshot: TableSnapshot, later: Iterable[Instant], *, in_logs: bool = True, in_rows: bool = True
) -> list[LostInstant]:
    """Return the instants that completed ones build on and that aren't completed, oldest first.

    An instant without any file left is reported if the active timeline reaches back to it, or if nothing was ever
    archived.

    Args:
        snapshot: the table.
        later: completed instants of the timeline whose metadata is read.
        in_logs: whether to read log files too: their blocks name their base file.
        in_rows: whether to look for rows of pending instants in compacted base files, below version 8.

    Raises:
        CorruptError: an instant can't be read.
    """
    pending = {each.requested: each for each in snapshot.timeline.pending}
    found: dict[str, LostInstant] = {}
    for instant in later:
        if instant.archived:
            continue
        proofs = _built_on(snapshot.meta, instant, in_logs=in_logs)
        if in_rows:
            proofs = chain(proofs, _of_rows(snapshot.meta, instant, pending))
        for requested, through, certain in proofs:
            left = pending.get(requested)
            known = (
                snapshot.timeline.commit(requested) is not None or requested in found or requested >= instant.requested
            )
            if known or requested.startswith(_BOOTSTRAP):
                continue
            if certain or (left is not None and left.action in WRITE_ACTIONS):
                found[requested] = LostInstant(requested, instant, through, left)
    return [found[requested] for requested in _surely(snapshot, found)]


def refuse_losses(
    snapshot: TableSnapshot, read: Sequence[Instant], *, after: str | None = None, until: str | None = None
) -> None:
    """Raise an error if a read would miss a lost instant.

    If writes are pending, later commits are read too. Otherwise only commit metadata that the read needs anyway is
    used.

    Args:
        snapshot: the table.
        read: completed instants whose metadata is cached, or needed anyway.
        after: ignore instants that completed until then; None for no bound.
        until: ignore instants requested later; None for no bound.

    Raises:
        CorruptError: an instant was lost.
    """
    pending = [each.requested for each in snapshot.timeline.pending if each.action in WRITE_ACTIONS]
    later = {each.requested: each for each in read}
    if pending:
        later |= {each.requested: each for each in snapshot.timeline.commits if each.requested > min(pending)}
    # the newest snapshot has compacted rows; only time travel and incremental reads need this check
    in_rows = until is not None or after is not None
    ordered = (later[requested] for requested in sorted(later))
    found = find_lost(snapshot, ordered, in_logs=False, in_rows=in_rows)
    for lost in found:  # readers of log files check those themselves
        # when it had completed
        latest = lost.proof.requested if snapshot.timeline.rules.has_completion_times else lost.requested
        if (until is None or lost.requested <= until) and (after is None or latest > after):
            raise _error(snapshot.meta, lost)


def refuse_to_undo(snapshot: TableSnapshot, target: Instant) -> None:
    """Refuse to roll back a pending instant that had completed.

    Raises:
        CorruptError: a later instant builds on it.
    """
    later = (each for each in snapshot.timeline.commits if each.requested > target.requested)
    for lost in find_lost(snapshot, later):
        if lost.requested == target.requested:
            raise _error(snapshot.meta, lost)


def _error(meta: MetaClient, lost: LostInstant) -> CorruptError:
    return CorruptError(lost.text, table=meta.storage.root, instant=lost.requested)


def _surely(snapshot: TableSnapshot, found: dict[str, LostInstant]) -> list[str]:
    """Return those that neither the current timeline nor the archive has."""
    if not found:
        return []
    now = snapshot.refreshed().timeline  # a slow listing may show an instant and miss one that completed before it
    archived: set[str] | None = None
    sure = []
    for requested, lost in sorted(found.items()):
        if now.commit(requested) is not None or now.commit(lost.proof.requested) is None:
            continue
        if lost.pending is None:
            if archived is None and snapshot.meta.store.has_history():
                start = snapshot.timeline.start or ""
                newer = min((each for each in found if each >= start), default=None)
                archived = set() if newer is None else {each.requested for each in snapshot.meta.store.archived(newer)}
            if archived is not None and (requested < (snapshot.timeline.start or "") or requested in archived):
                continue
        sure.append(requested)
    return sure


def _built_on(meta: MetaClient, instant: Instant, *, in_logs: bool) -> Iterator[tuple[str, str, bool]]:
    """Return the requested times that a completed instant builds on, what refers to each, and whether it is proof.

    Names of log files are no proof below version 8: they have the instant of their slice's base file, which may be a
    pending compaction.
    """
    metadata = meta.store.read_commit_metadata(instant)
    for stat in metadata.stats:
        yield from _of_stat(stat)
        if in_logs and meta.store.rules.logs_name_their_commit:
            yield from _of_log(meta, stat)
    if meta.merges_on_read and metadata.operation_type == "COMPACT":
        yield from _of_plan(meta, instant)


def _of_stat(stat: WriteStat) -> Iterator[tuple[str, str, bool]]:
    is_base = isinstance(parse_data_file(basename(stat.path or "")), BaseFileName)
    for name in (stat.prev_base_file, stat.base_file):
        parsed = parse_data_file(name) if name else None
        if isinstance(parsed, BaseFileName) and is_instant_time(parsed.instant):
            yield parsed.instant, parsed.name, True
    previous = stat.prev_commit or NO_COMMIT
    if previous != NO_COMMIT and is_instant_time(previous):
        yield previous, f"its version of file group {stat.file_id}", is_base


def _of_rows(meta: MetaClient, instant: Instant, pending: Mapping[str, Instant]) -> Iterator[tuple[str, str, bool]]:
    """Find pending writes whose rows are in a compaction's base files, since compactions merge only completed writes.

    Below version 8 there is no other proof: names of log files only have their base file's instant.
    """
    asked = {each for each, left in pending.items() if left.action in WRITE_ACTIONS and each < instant.requested}
    if (
        not asked
        or meta.store.rules.logs_name_their_commit
        or not meta.merges_on_read
        or not meta.config.populate_meta_fields
    ):
        return
    metadata = meta.store.read_commit_metadata(instant)
    if metadata.operation_type != "COMPACT":
        return
    for stat in metadata.stats:
        if not asked:
            return
        path = stat.path or ""
        base = BaseFile.of(stat.partition_path or "", FileInfo(path, stat.file_size_in_bytes, 0))
        if base is None:
            continue
        try:
            times = open_base_file(meta.storage, base, [COMMIT_TIME]).read([COMMIT_TIME])[COMMIT_TIME]
        except (NotFoundError, CorruptError):  # cleaned; or damaged, which its readers tell
            continue
        found = asked.intersection(times.unique().to_pylist())
        yield from ((each, f"its rows in {path}", True) for each in sorted(found))
        asked -= found


def _of_log(meta: MetaClient, stat: WriteStat) -> Iterator[tuple[str, str, bool]]:
    parsed = parse_data_file(basename(stat.path or ""))
    if not isinstance(parsed, LogFileName) or parsed.cdc:
        return
    try:
        found = bases_under(meta.storage, LogFile(stat.partition_path or "", parsed, stat.file_size_in_bytes or 0))
    except (NotFoundError, CorruptError):  # compacted and cleaned; or damaged, which its readers tell
        return
    yield from ((each, f"the base file below {parsed.name}", True) for each in sorted(found) if is_instant_time(each))


def _of_plan(meta: MetaClient, instant: Instant) -> Iterator[tuple[str, str, bool]]:
    try:
        plan = compaction_plan(meta.store, replace(instant, action=Action.COMPACTION))
    except NotFoundError:
        return
    first_version = int(meta.config.raw.get(TableConfig.first_version.key) or 0)
    own_names = meta.store.rules.logs_name_their_commit and first_version >= 8
    for operation in plan.operations:
        for name in operation.log_files:
            parsed = parse_data_file(name)
            if parsed is not None and is_instant_time(parsed.instant):
                yield parsed.instant, parsed.name, own_names
