"""A run's table services as steps of `spec/services.py`: a step that it doesn't have contradicts it.

The files of the timeline say when compactions, clusterings and cleans were planned, leased, completed and rolled back,
and which files they name; the commits say which files are in which file slices. A time is the number of the call that
stored it, so that log files belong to slices in the order of calls in all versions. What files hold isn't looked at:
the judge compares records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pudi.format import (
    TABLE_LOCK,
    Action,
    CommitMetadata,
    FileGroupId,
    InstantFile,
    State,
    decode_avro,
    decode_commit_metadata,
    decode_compaction_plan,
    decode_requested_replace_metadata,
    parse_log_file,
)
from pudi.format.plans import decode_clean_plan, decode_clustering_plan
from support.simulated.instants import MADE, TimelineFolder, holder_after
from support.simulated.run import Checked, Played
from support.simulated.work import first_files
from support.simulated.world import Note
from support.specifications import specification

SPEC, STATE = specification("services"), specification("services_state")
_WRITES = {Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT}
_START = 1_000
"""The time before the first call: what is there at the beginning comes earlier."""
_KINDS = {"COMPACT": "compact", "CLUSTER": "cluster"}
_INVARIANTS = (STATE.files_stay, STATE.plans_have_files, STATE.writes_have_files, STATE.one_result)


class ServiceTrace:
    """The steps of one run.

    Attributes:
        table: the specification's state.
        steps: the steps that were taken, as text.
        problem: why the next one can't be taken.
    """

    def __init__(self, played: Played) -> None:
        self.steps: list[str] = []
        self.problem: str | None = None
        self._timeline = TimelineFolder(played.plan)
        self._notes = [note for note in played.notes if note.done]
        self._checks: dict[str, Checked] = {each.requested: each for each in played.checks}
        self._nonblocking = played.plan.kind.nonblocking
        self._old = played.plan.kind.version == "6"
        self._done = dict(self._completed())
        self._times: dict[str, int] = {}
        self._files: dict[str, Any] = {}
        self._begun: Counter[FileGroupId] = Counter()
        self._keepers: dict[tuple[str, str], str] = {}
        self._clean = ""
        self._holder: str | None = None
        retained = int(played.plan.options["hoodie.clean.commits.retained"])
        self.table = STATE.Table(retained=retained)
        self._begin(first_files(played.plan.kind))

    def run(self) -> None:
        """Take all steps, as far as there are such."""
        for note in self._notes:
            if self.problem is None:
                self.table = replace(self.table, now=_START + note.number)
                self._see(note)

    def _completed(self) -> Iterator[tuple[str, CommitMetadata]]:
        """What commits did, by their requested times."""
        for note in self._notes:
            file = self._timeline.instant(note.path) if note.kind in MADE else None
            if file is not None and file.state is State.COMPLETED and file.action in _WRITES:
                yield file.requested, decode_commit_metadata(note.data or b"", path=note.path)

    def _begin(self, files: dict[str, bytes]) -> None:
        """The commits that are there at the beginning, one after the other."""
        found = [(file, path) for path in files if (file := self._timeline.instant(path)) is not None]
        done = sorted((f.requested, path) for f, path in found if f.state is State.COMPLETED and f.action in _WRITES)
        commits = []
        for number, (requested, path) in enumerate(done):
            metadata = decode_commit_metadata(files[path], path=path)
            self._times[requested] = 2 * number + 1
            kind = _KINDS.get(metadata.operation_type or "", "write")
            adds, replaces = self._adds(requested, metadata), self._groups(metadata.replaced_groups)
            commits.append(STATE.Commit(kind, self._times[requested], self._times[requested] + 1, adds, replaces))
        there = frozenset(file for path, file in self._files.items() if path in files)
        self.table = replace(self.table, commits=frozenset(commits), files=there)

    def _adds(self, requested: str, metadata: CommitMetadata) -> frozenset[Any]:
        """The files of a commit."""
        found = set()
        for partition, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                for path in stat.paths:
                    log = parse_log_file(path.rpartition("/")[2])
                    if log is None or not log.cdc:
                        (group,) = self._groups([(partition, stat.file_id or "")])
                        file = STATE.File(group, self._times[requested], path, log is None)
                        self._files[path] = file
                        found.add(file)
        return frozenset(found)

    def _groups(self, found: Iterable[FileGroupId]) -> frozenset[tuple[str, str, int]]:
        """File groups; one whose replacement has been archived may be begun again, as another one."""
        return frozenset((*group, self._begun[group]) for group in found)

    def _see(self, note: Note) -> None:
        if note.path == TABLE_LOCK and note.kind in MADE:
            held = holder_after(note)
            self._holder = None if held is None else held[0]
        elif note.kind == "delete":
            for path in note.path.split("\n"):
                self._see_deleted(note, path)
        elif note.kind in MADE and (file := self._timeline.instant(note.path)) is not None:
            self._see_instant(note, file)

    def _see_instant(self, note: Note, file: InstantFile) -> None:
        requested, state = file.requested, file.state
        if file.action is Action.SAVEPOINT:
            if state is State.COMPLETED:
                self._save(note, requested)
        elif file.action is Action.CLEAN and state is State.REQUESTED:
            self._schedule_clean(note, requested)
        elif file.action is Action.CLEAN and state is State.COMPLETED:
            if self._clean == requested:
                self._guarded(note, "end_clean")
        elif state is State.REQUESTED:
            self._times[requested] = self.table.now
            groups = self._planned(note, file)
            if groups is not None:
                self._schedule(note, requested, *groups)
            elif file.action in _WRITES:
                self._plan(requested)
        elif state is State.INFLIGHT and requested in self.table.plans:
            self._lease(note, requested)
        elif state is State.COMPLETED and requested in self.table.plans:
            self._end(note, requested)
        elif state is State.COMPLETED and requested in self.table.writers:
            self._complete(requested)

    # --- writes

    def _plan(self, w: str) -> None:
        metadata, check = self._done.get(w), self._checks.get(w)
        groups = self._groups(() if check is None else check.groups)
        rewrites = replaces = self._groups(())
        if metadata is not None:
            groups, replaces = self._groups(metadata.written_groups), self._groups(metadata.replaced_groups)
            rewrites = frozenset(file.group for file in self._adds(w, metadata) if file.base)
        live = groups & STATE.live_groups(self.table, self.table.now)  # of others it is about to learn
        reads = frozenset().union(*(STATE.slice_of(self.table, group, self.table.now) for group in live))
        self.table = replace(self.table, writers={**self.table.writers, w: STATE.Writer()})
        self._step("plan_all", w, groups, rewrites, replaces, reads)

    def _complete(self, w: str) -> None:
        check, own = self._checks.get(w), self.table.writers[w]
        if check is not None:
            seen, listed = (
                {self._times[each] for each in found if each in self._times} for found in (check.seen, check.listed)
            )
            own = replace(own, seen=(own.seen - listed) | seen)  # those that the timeline doesn't have are archived
        if self._nonblocking:  # `Trace` and `buckets.qnt` are about these
            own = replace(own, seen=own.seen.union(c.requested for c in self.table.commits if c.kind == "write"))
        self.table = self.table.writes(w, seen=own.seen)
        if own.phase == "planned" and SPEC.contradicted(self.table, w):
            self._say(f"write {w} completed and had to be refused")
        elif own.phase != "planned":
            self._say(f"write {w} completed, which was {own.phase}")
        else:
            self._begun.update(each[:2] for each in own.groups & STATE.replaced(self.table, self.table.now))
            self.table = SPEC.completed_with(self.table, w, self._adds(w, self._done[w]))
            self._taken(f"complete {w}")

    # --- compaction and clustering

    def _planned(self, note: Note, file: InstantFile) -> tuple[str, frozenset[Any], set[str]] | None:
        """What a plan takes: its kind, file groups and files; None if it's no plan that the specification has."""
        data, path = note.data or b"", note.path
        if file.action is Action.COMPACTION:
            kind, operations = "compact", decode_compaction_plan(data, path=path).operations
        elif file.action is Action.CLUSTERING or (
            self._old
            and file.action is Action.REPLACECOMMIT
            and decode_requested_replace_metadata(data, path=path).clustering_plan is not None
        ):
            kind, operations = "cluster", decode_clustering_plan(data, path=path).slices
        else:
            return None
        groups = self._groups(each.group for each in operations)
        named = {_path(each.partition_path, name) for each in operations for name in (each.base_file, *each.log_files)}
        return kind, groups, named

    def _schedule(self, note: Note, p: str, kind: str, groups: frozenset[Any], named: set[str]) -> None:
        reads = frozenset(self._files[path] for path in named if path in self._files)
        slices = frozenset().union(*(STATE.slice_of(self.table, group, self.table.now) for group in groups))
        if reads != slices:
            self._say(f"{kind} {p} names {_names(reads)}, and the newest file slices are {_names(slices)}")
        self.table = replace(self.table, plans={**self.table.plans, p: STATE.Plan()})
        self._guarded(note, "schedule_all", p, kind, groups, reads)

    def _lease(self, note: Note, p: str) -> None:
        k = f"{note.process} {note.number}"
        self.table = self.table.keeps(k, STATE.Keeper())
        self._keepers[p, note.process] = k
        self._guarded(note, "lease", k, p)

    def _end(self, note: Note, p: str) -> None:
        k = self._keepers.get((p, note.process))
        if k is None or self.table.keepers[k].phase != "leased":
            self._say(f"{note.process} completed the plan {p}, which it hasn't leased")
            return
        self._step("write_all", k, self._adds(p, self._done[p]))
        self._guarded(note, "end", k)
        if self.table.plans[p].phase != "done":
            self._say(f"{note.process} completed the plan {p}, and had to be refused: {self.table.plans[p].phase}")

    # --- cleaning and savepoints

    def _schedule_clean(self, note: Note, requested: str) -> None:
        plan = decode_clean_plan(note.data or b"", path=note.path)
        named = {_path(partition, file.rpartition("/")[2]) for partition, files in plan.files.items() for file in files}
        doomed = frozenset(self._files[path] for path in named if path in self._files) & self.table.files
        if not doomed:
            return
        needed = doomed - SPEC.unneeded(self.table)
        if needed:
            self._say(f"clean {requested} names files that are needed: {_names(needed)}")
        self._clean = requested
        self._guarded(note, "schedule_clean_of", doomed)

    def _save(self, note: Note, requested: str) -> None:
        record = decode_avro(note.data or b"", path=note.path)["partitionMetadata"]
        named = {_path(partition, name) for partition, each in record.items() for name in each["savepointDataFile"]}
        files = frozenset(self._files[path] for path in named if path in self._files)
        missing = STATE.state(self.table, self._times[requested]) - files
        if missing:
            self._say(f"savepoint {requested} lacks {_names(missing)}")
        self.table = replace(self.table, saved={**self.table.saved, self._times[requested]: files})
        self._taken(f"save {requested}")

    # --- what is deleted

    def _see_deleted(self, note: Note, path: str) -> None:
        file = self._timeline.instant(path)
        if file is not None:
            self._see_undone(note, file)
            return
        found = self._files.get(path)
        if found in self.table.files and any(found in commit.adds for commit in self.table.commits):
            self._step("delete", found)

    def _see_undone(self, note: Note, file: InstantFile) -> None:
        """An instant is undone; the files of completed ones go when they're archived."""
        requested, state = file.requested, file.state
        if requested in self.table.writers and state is State.REQUESTED:
            if self.table.writers[requested].phase == "planned":
                self._step("abort", requested)
        elif requested in self.table.plans and self.table.plans[requested].phase == "pending":
            k = self._keepers.get((requested, note.process))
            if k is not None and self.table.keepers[k].phase != "idle":
                self._step("die", k)
            if state is State.REQUESTED:
                self._step("drop", requested)
        elif requested == self._clean and state is State.REQUESTED and self.table.doomed & self.table.files:
            self._say(f"clean {requested} is rolled back with files left to delete")

    # --- steps

    def _guarded(self, note: Note, action: str, *arguments: Any) -> None:
        """Take a step that needs the lock."""
        if self._holder != note.process:
            self._say(f"{action} {_shown(arguments)} by {note.process}, while the lock is held by {self._holder}")
        self._step(action, *arguments)

    def _step(self, action: str, *arguments: Any) -> None:
        if self.problem is not None:
            return
        after = getattr(SPEC, action)(self.table, *arguments)
        if after is None:
            self._say(f"{action} {_shown(arguments)} isn't enabled")
            return
        self.table = after
        self._taken(f"{action} {_shown(arguments)}")

    def _taken(self, step: str) -> None:
        self.steps.append(step)
        broken = next((each.__name__ for each in _INVARIANTS if not each(self.table)), None)
        if broken is not None:
            self._say(f"after {step} the invariant {broken} doesn't hold")

    def _say(self, problem: str) -> None:
        if self.problem is None:
            self.problem = f"services, step {len(self.steps) + 1}: {problem}; before: {', '.join(self.steps[-6:])}"


def _path(partition: str, name: str | None) -> str:
    return f"{partition}/{name}" if partition else str(name)


def _names(files: frozenset[Any]) -> str:
    return ", ".join(sorted(file.attempt for file in files)) or "nothing"


def _shown(arguments: tuple[Any, ...]) -> str:
    return " ".join(each for each in arguments if isinstance(each, str))
