"""Report a hard deletion, and the files that still hold the records, with the reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pudi.client import MetaClient
from pudi.config import CleanOptions, Options
from pudi.filegroup import FileSlice
from pudi.format import METADATA_DIR, parse_data_file
from pudi.services.clean_plan import pending_slices, savepointed_names
from pudi.task.find_records import Held
from pudi.timeline import Instant
from pudi.upgrade.maintenance import MaintenanceStep, Outcome


@dataclass(frozen=True, slots=True)
class StillHeld:
    """A file that holds versions of the records, or entries about them.

    Attributes:
        path: the file, relative to the table's root.
        records: number of versions, deletes or entries; 0 if the file can't be read.
        reason: what keeps the file.
        instant: requested time of the savepoint, or of the pending instant, that keeps it; None without one.
    """

    path: str
    records: int
    reason: str
    instant: str | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.records} versions or entries: {self.reason}"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Result of a hard deletion, or of its dry run.

    Attributes:
        path: the table's root.
        records: number of records: those that matched, and those that were deleted before and once matched.
        steps: what was done, in order.
        left: the files that still hold some; with `dry_run` those that hold some now.
        files_read: number of files that were read.
        dry_run: whether nothing was changed.
    """

    path: str
    records: int
    steps: tuple[MaintenanceStep, ...]
    left: tuple[StillHeld, ...]
    files_read: int
    dry_run: bool = False

    @property
    def ok(self) -> bool:
        """Whether no file holds any of the records."""
        return not self.left

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(asdict(self) | {"ok": self.ok}, indent=2)

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps if step.outcome is not Outcome.NOTHING]
        lines += [f"held by   {each}" for each in self.left]
        if self.dry_run:
            lines.append(f"{self.records} records are in {len(self.left)} of {self.files_read} files")
        elif self.left:
            lines.append(f"{self.records} records: {len(self.left)} files still hold some of them")
        else:
            lines.append(f"{self.records} records: no file holds any of them")
        return "\n".join(lines)


def reasons(meta: MetaClient, options: Options, held: Sequence[Held], *, retains: bool) -> tuple[StillHeld, ...]:
    """Say what keeps each of some files.

    Args:
        meta: the table.
        options: the caller's.
        held: the files.
        retains: whether the options say what a clean leaves.
    """
    if not held:
        return ()
    timeline = meta.store.load()
    savepoints = savepointed_names(meta, timeline)
    plans = pending_slices(meta, timeline)
    pending = {each.requested: each for each in timeline.pending}
    view = meta.view(timeline, sizes=False)
    newest = {path for each in view.all_slices() for path in _paths(each)}
    whole: dict[str, tuple[str, ...]] = {}  # a clean keeps all files of a slice, or none
    for group in view.groups_of(sorted({each.path.rpartition("/")[0] for each in held if not _is_entry(each)})):
        for files in (each.files for each in group.slices):
            names = {path.rpartition("/")[2] for path in files}
            saved = [instant for instant, kept in savepoints.items() if names & kept]
            whole.update(dict.fromkeys(files, tuple(saved)))
    in_data = not all(map(_is_entry, held))
    policy = CleanOptions.of(options).policy
    found = []
    for each in held:
        name = parse_data_file(each.path.rpartition("/")[2])
        in_group = (each.path.rpartition("/")[0], "" if name is None else name.file_id)
        saved_by = whole.get(each.path) or ()
        instant: str | None = None
        if each.error:
            reason = f"it can't be read, and may hold some: {each.error}"
        elif _is_entry(each):
            instant = None if in_data else min(pending, default=None)
            reason = _of_entries(in_data, pending.get(instant or ""))
        elif saved_by:
            instant, reason = saved_by[0], f"the savepoint of {', '.join(saved_by)} keeps it"
        elif in_group in plans:
            action, instant, _ = plans[in_group]
            reason = f"the pending {action} {instant} needs it"
        elif name is not None and name.instant in pending:
            instant, reason = name.instant, f"the {pending[name.instant].action.value} that writes it is pending"
        elif each.path in newest:
            reason = "it is in the newest slice of its file group"
        elif retains:
            reason = f"the policy {policy} retains it"
        else:
            reason = "an old slice that no clean has deleted yet"
        found.append(StillHeld(each.path, each.rows, reason, instant))
    return tuple(found)


def _is_entry(held: Held) -> bool:
    return held.path.startswith(METADATA_DIR)


def _of_entries(in_data: bool, waits_for: Instant | None) -> str:
    if in_data:
        return "entries of the metadata table about the other files, or about the records in them"
    if waits_for is not None:
        return f"entries of the metadata table, which waits for the pending {waits_for.action.value}"
    return "entries of the metadata table, which a compaction and a clean of it remove"


def _paths(file_slice: FileSlice) -> list[str]:
    files = (file_slice.base, *file_slice.logs)
    return [each.path for each in files if each is not None]
