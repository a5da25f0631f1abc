"""Refuses reads of moments whose files cleans deleted: they would lack records."""

from __future__ import annotations

from collections.abc import Sequence

from pudi.client import MetaClient
from pudi.errors import NotFoundError
from pudi.filegroup.clean_history import Cleaned, cleans_after, naming_retained, retained_text
from pudi.format import Action, FileGroupId, parse_data_file
from pudi.timeline import Timeline


def refuse_cleaned(meta: MetaClient, timeline: Timeline, instant: str) -> None:
    """Refuse a moment that cleans did not keep (TimelineUtils.validateTimestampAsOf, which looks at the last clean).

    The files of a commit with a savepoint are all kept; Hudi refuses to read them by time travel.

    Raises:
        NotFoundError: a clean kept no commit of the moment, or deleted files that the moment needs.
    """
    seen = timeline.until(instant)
    newest = max((each.requested for each in seen.commits), default=None)
    if any(each.requested == newest for each in timeline.of(Action.SAVEPOINT)):
        return
    cleans = cleans_after(meta.store, timeline, instant)
    if not any(each.retained > instant for each in cleans):
        cleans = cleans_after(meta.store, timeline, instant, archived=True)
    earliest = max((each.retained for each in cleans), default="")
    if cleans and not earliest:  # they keep this many versions of each file: all of the active timeline counts as kept
        earliest = next((i.requested for i in timeline.commits if not i.archived), "")
    if earliest and instant < earliest:
        text = retained_text(timeline, cleans) or f"the earliest commit that cleans kept is {earliest}"
        raise NotFoundError(
            f"the cleaner has removed the table's state at {instant}; {text}", table=meta.storage.root, instant=instant
        )
    _refuse_lost_slices(meta, timeline, seen, instant, cleans)


def _refuse_lost_slices(
    meta: MetaClient, timeline: Timeline, seen: Timeline, instant: str, cleans: Sequence[Cleaned]
) -> None:
    """Refuse a moment of which a cleaner that counts slices kept some file groups and not others.

    Such a cleaner states no earliest commit, and deletes replaced file groups immediately.
    """
    deleted = _deleted_files(meta, seen, [each for each in cleans if not each.retained], instant)
    if not deleted:
        return
    with naming_retained(meta.store):
        slices = meta.view(timeline, seen=seen, archived_until=instant).all_slices()
    there = {each.group: each.instant for each in slices}
    for group, newest in deleted.items():
        if there.get(group, "") <= newest:
            raise NotFoundError(
                f"the cleaner has removed files of the table's state at {instant}: those of file group {group[1]} of "
                f"partition {group[0]!r} that {newest} wrote; read a later state; {retained_text(timeline, cleans)}",
                table=meta.storage.root,
                instant=instant,
            )


def _deleted_files(meta: MetaClient, seen: Timeline, cleans: Sequence[Cleaned], instant: str) -> dict[FileGroupId, str]:
    """Return the greatest instant among deleted files of each file group that the table had at a moment.

    What was replaced by then, or whose commit wasn't completed, no reader of that moment needs.
    """
    committed, first = {each.requested for each in seen.commits}, seen.start or ""
    found: dict[FileGroupId, str] = {}
    for partition, names in (pair for each in cleans for pair in each.deleted.items()):
        for name in (parsed for parsed in map(parse_data_file, names) if parsed is not None):
            if name.instant in committed or name.instant < first:
                group = FileGroupId(partition, name.file_id)
                found[group] = max(found.get(group, ""), name.instant)
    if not found:
        return {}
    oldest = min(found.values())
    archived = meta.store.archived(oldest) if oldest < first and meta.store.has_history() else ()
    replaced = {
        group
        for each in (*archived, *seen.instants)
        if each.action is Action.REPLACECOMMIT and each.is_completed and each.requested <= instant
        for group in meta.store.read_commit_metadata(each).replaced_groups
    }
    return {group: newest for group, newest in found.items() if group not in replaced}
