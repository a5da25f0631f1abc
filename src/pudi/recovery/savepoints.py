"""Savepoints: commits whose files no clean deletes, so that the table can be restored to them.

Source: SavepointActionExecutor, SavepointHelpers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from posixpath import basename

from pudi.client import MetaClient, TableSnapshot
from pudi.commit.dead_writers import finish_rollbacks
from pudi.config import ArchiveOptions
from pudi.errors import CorruptError, InvalidArgumentError, NotFoundError
from pudi.filegroup.clean_history import cleans_after, retained_text
from pudi.format import Action, State
from pudi.format.instants import encode_savepoint
from pudi.services.archive import replaced_files
from pudi.services.clean_plan import savepointed_names
from pudi.storage import delete_for_good
from pudi.timeline import Instant, archive


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint of a table.

    Attributes:
        instant: requested time of its commit.
        made: when it was made, in UTC.
        user: who made it.
        comment: why.
        files: the number of files that it keeps.
    """

    instant: str
    made: datetime
    user: str
    comment: str
    files: int


def make_savepoint(meta: MetaClient, instant: str | None, user: str, comment: str) -> Savepoint:
    """Make a savepoint of a commit.

    Args:
        meta: the table.
        instant: its requested time; None for the newest commit.
        user: who makes it.
        comment: why.

    Raises:
        NotFoundError: there is no such commit on the active timeline, or a clean may have deleted its files.
        InvalidArgumentError: the commit has a savepoint.
        BlockedError: a restore is pending, which may roll the commit back.
    """
    with meta.lock:
        meta.reload()
        snapshot = finish_rollbacks(TableSnapshot.load(meta))
        commit = commit_of(snapshot, instant)
        if commit.requested in snapshot.timeline.savepoints:
            raise InvalidArgumentError(
                "the commit has a savepoint already", table=meta.storage.root, instant=commit.requested
            )
        check_retained(snapshot, commit)
        files = _files(snapshot, commit)
        made_ms = meta.context.clock.now_ms()
        inflight = Instant(commit.requested, Action.SAVEPOINT, State.INFLIGHT, layout=meta.store.layout)
        meta.storage.put(meta.store.path(inflight), b"", durable=True)  # one may be left of a process that died
        meta.store.complete(inflight, encode_savepoint(user, comment, made_ms, files))
    made = datetime.fromtimestamp(made_ms / 1000, timezone.utc)
    return Savepoint(commit.requested, made, user, comment, sum(map(len, files.values())))


def list_savepoints(snapshot: TableSnapshot) -> list[Savepoint]:
    """Return the savepoints, oldest commit first.

    Raises:
        CorruptError: one can't be read.
    """
    found = []
    for instant in snapshot.timeline.of(Action.SAVEPOINT):
        record = snapshot.meta.store.decoded(instant)
        try:
            made = datetime.fromtimestamp(record["savepointedAt"] / 1000, timezone.utc)
            files = sum(len(each["savepointDataFile"]) for each in record["partitionMetadata"].values())
            found.append(Savepoint(instant.requested, made, record["savepointedBy"], record["comments"], files))
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError, OSError) as error:
            raise CorruptError(
                f"the savepoint can't be read ({error!r}); delete it, or restore its file from a copy",
                table=snapshot.table,
                instant=instant.requested,
            ) from error
    return found


def delete_savepoint(meta: MetaClient, instant: str) -> None:
    """Delete a savepoint; the next clean may delete its files.

    If later commits were archived (hoodie.archive.beyond.savepoint), its commit is archived before: files of archived
    commits count as committed only if they are older than the first commit without a savepoint, `Timeline.start`.

    Args:
        meta: the table.
        instant: requested time of its commit.

    Raises:
        NotFoundError: the commit has no savepoint.
        InvalidArgumentError: its commit can't be archived yet, since it replaced file groups that no clean has deleted.
    """
    with meta.lock:
        snapshot = TableSnapshot.load(meta)
        found = snapshot.timeline.find(instant, Action.SAVEPOINT)
        if found is None:
            known = ", ".join(snapshot.timeline.savepoints) or "none"
            raise NotFoundError(
                f"the commit has no savepoint; the table's savepoints: {known}",
                table=meta.storage.root,
                instant=instant,
            )
        if found.is_completed:
            _archive_behind(snapshot, found)
            delete_for_good(meta.storage, [meta.store.path(found)])
        delete_for_good(meta.storage, [meta.store.path(found, State.INFLIGHT)])


def _archive_behind(snapshot: TableSnapshot, savepoint: Instant) -> None:
    """Archive commits that have no savepoint without a given one, and that are older than an archived commit."""
    meta, timeline = snapshot.meta, snapshot.timeline
    saved = {*timeline.savepoints} - {savepoint.requested}
    free = [each for each in timeline.commits if each.requested not in saved]
    if not free:
        return
    newest = max((each.requested for each in meta.store.archived(free[0].requested) if each.is_write), default="")
    behind = [each for each in free if each.requested < newest]
    bound = replaced_files(snapshot, behind)
    if bound is not None:
        raise InvalidArgumentError(
            f"commits after the savepoint's were archived, so that its commit has to be, too; but {bound.reason}: "
            "clean the table first",
            table=meta.storage.root,
            instant=savepoint.requested,
        )
    archive(meta.store, behind, ArchiveOptions.of(meta.options))


def commit_of(snapshot: TableSnapshot, instant: str | None) -> Instant:
    """Return a completed commit.

    Args:
        snapshot: the table.
        instant: requested time; None for the commit that completed last.

    Raises:
        NotFoundError: there is none on the active timeline.
    """
    timeline = snapshot.timeline
    found = max(timeline.commits, key=timeline.done, default=None) if instant is None else timeline.commit(instant)
    if found is None:
        first = timeline.commits[0].requested if timeline.commits else "nothing"
        raise NotFoundError(
            f"no completed commit of that time is on the active timeline, which begins with {first}",
            table=snapshot.table,
            instant=instant,
        )
    return found


def check_retained(snapshot: TableSnapshot, commit: Instant) -> None:
    """Refuse a commit without savepoint whose files a clean may have deleted, or is about to delete.

    Raises:
        NotFoundError: it's older than what a later clean retained.
        CorruptError: a clean can't be read.
    """
    timeline = snapshot.timeline
    every = (State.COMPLETED, State.INFLIGHT, State.REQUESTED)
    cleans = cleans_after(snapshot.meta.store, timeline, commit.requested, every)
    for clean in cleans:
        retained = clean.retained
        if not retained:  # the policy counts file slices: only what was newest then is surely there
            before = (each.requested for each in timeline.commits if each.requested <= clean.requested)
            retained = max(before, default=clean.requested)
        if commit.requested < retained:
            raise NotFoundError(
                "a clean may have deleted files of this commit, or is about to: clean "
                f"{clean.requested} retained the commits from {retained} on; {retained_text(timeline, cleans)}",
                table=snapshot.table,
                instant=commit.requested,
            )


def check_can_roll_back(snapshot: TableSnapshot, commit: Instant) -> None:
    """Refuse to roll back a commit that the table still needs.

    Raises:
        InvalidArgumentError: it's the last commit on the active timeline without a savepoint, and some before it were
            archived; or a savepoint keeps files that it wrote: a clustering may complete after the savepoint's commit
            was requested.
        CorruptError: a savepoint can't be read.
    """
    meta, timeline = snapshot.meta, snapshot.timeline
    left = replace(timeline, instants=tuple(each for each in timeline.instants if each != commit))
    with_savepoint = timeline.savepoints
    is_last = all(each.requested in with_savepoint for each in left.commits)
    if is_last and any(each.is_write and each.requested > (left.start or "") for each in meta.store.archived()):
        raise InvalidArgumentError(
            "it's the last commit on the active timeline without a savepoint, and some before it were archived: "
            "readers would no longer find these. Overwrite what it wrote",
            table=meta.storage.root,
            instant=commit.requested,
        )
    saved = savepointed_names(snapshot)
    stats = meta.store.read_commit_metadata(commit).stats if saved else ()
    written = {basename(path) for stat in stats for path in stat.paths}
    for requested, kept in saved.items():
        if not written.isdisjoint(kept):
            raise InvalidArgumentError(
                f"savepoint {requested} keeps files that the commit wrote: delete that first",
                table=meta.storage.root,
                instant=commit.requested,
            )


def _files(snapshot: TableSnapshot, commit: Instant) -> dict[str, list[str]]:
    """Return the names of the files that readers of the table as of a commit need, by partition path."""
    seen = snapshot.seeing(snapshot.timeline.until(commit.requested))
    view = seen.view(archived_until=commit.requested)
    files: dict[str, list[str]] = {}
    for each in view.all_slices():
        paths = [*([each.base.path] if each.base is not None else []), *(log.path for log in each.logs)]
        files.setdefault(each.partition, []).extend(basename(path) for path in paths)
    return files
