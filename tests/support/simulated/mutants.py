"""The protocol broken on purpose, one rule at a time: the simulation must find each.

A mutant replaces text in the source of named functions and puts the result in their place while it's applied. Nothing
in pudi switches it; a mutant whose text isn't there any more fails, so that the list keeps up with the source.
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from support.simulated.plans import Plan


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of the source of one function.

    Attributes:
        where: module and qualified name, `pudi.timeline.store:TimelineStore.complete`.
        old: text that is there once.
        new: text in its place.
    """

    where: str
    old: str
    new: str

    @property
    def function(self) -> FunctionType:
        """The function, without what decorates it."""
        module, _, name = self.where.partition(":")
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = inspect.getattr_static(found, part)
        found = getattr(found, "fget", None) or getattr(found, "__func__", found)
        while hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        return found  # type: ignore[no-any-return]


def _broken(edits: Sequence[Edit]) -> CodeType:
    """Compile a function with all changes of it."""
    function = edits[0].function
    source = textwrap.dedent(inspect.getsource(function))
    for edit in edits:
        if source.count(edit.old) != 1:
            raise AssertionError(f"{edit.where} has {source.count(edit.old)} times, not once: {edit.old!r}")
        source = source.replace(edit.old, edit.new)
    flags = __future__.annotations.compiler_flag
    compiled = compile(source, f"<mutant of {edits[0].where}>", "exec", flags=flags, dont_inherit=True)
    return _code_of(compiled, function.__name__)


def _code_of(compiled: CodeType, name: str) -> CodeType:
    return next(each for each in compiled.co_consts if isinstance(each, CodeType) and each.co_name == name)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken rule.

    Attributes:
        name: the rule that is broken, as people say it.
        edits: the changes that break it.
        wants: whether a run can show it at all: others aren't searched for it.
        nonblocking: whether it's about writers that don't block each other: runs with these have the seeds below 0.
    """

    name: str
    edits: tuple[Edit, ...]
    wants: Callable[[Plan], bool] = lambda _: True
    nonblocking: bool = False

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Break it for the time being."""
        by_function: dict[str, list[Edit]] = {}
        for edit in self.edits:
            by_function.setdefault(edit.where, []).append(edit)
        functions = [edits[0].function for edits in by_function.values()]
        codes = [_broken(edits) for edits in by_function.values()]
        whole = [function.__code__ for function in functions]
        try:
            for function, code in zip(functions, codes, strict=True):
                function.__code__ = code
            yield
        finally:
            for function, code in zip(functions, whole, strict=True):
                function.__code__ = code


def _mutant(
    name: str,
    *edits: tuple[str, str, str],
    wants: Callable[[Plan], bool] = lambda _: True,
    nonblocking: bool = False,
) -> Mutant:
    return Mutant(name, tuple(Edit(*edit) for edit in edits), wants, nonblocking)


_NONBLOCKING = "pudi.concurrency.conflicts:NonBlocking.contradiction"


def _stops(plan: Plan) -> bool:
    return plan.weather.pauses > 0


def _dies(plan: Plan) -> bool:
    return plan.weather.crashes > 0


def _clusters(plan: Plan) -> bool:
    return plan.kind.index != "bucket"


def _towards(situation: str, also: Callable[[Plan], bool] = lambda _: True) -> Callable[[Plan], bool]:
    return lambda plan: plan.situation == situation and also(plan)


def _updates_what_others_write(plan: Plan) -> bool:
    """Whether one writer updates keys that another one upserts, and the order of the commits counts."""
    done = [
        (process.name, each.verb, set(each.keys))
        for process in plan.processes
        for each in process.operations
        if each.verb in {"update", "upsert"}
    ]
    return not plan.kind.ordered and any(
        verb == "update" and other == "upsert" and name != by and keys & theirs
        for name, verb, keys in done
        for by, other, theirs in done
    )


def _deletes_new_keys(plan: Plan) -> bool:
    """Whether one writer deletes a new key that another one brings, so that there may be no file group yet."""
    new = {
        (process.name, each.verb, key)
        for process in plan.processes
        for each in process.operations
        for key in each.keys
        if key.startswith("x")
    }
    return any(
        verb == "delete" and other in {"upsert", "insert"} and name != by and key == brought
        for name, verb, key in new
        for by, other, brought in new
    )


_STORE = "pudi.timeline.store:TimelineStore"
_LOCK = "pudi.locks.storage_lock:StorageBasedLock"
_CHECK = "pudi.concurrency.conflicts:ConflictCheck"
_RETENTION = "pudi.services.clean_plan:RetentionRules"
_WORK = "pudi.commit.commit_hook:_IndexWork"
_PLAN = "pudi.services.archive"

MUTANTS: Sequence[Mutant] = (
    _mutant(
        "no conflict check",
        (f"{_CHECK}.check", "for rule in CONFLICT_RULES:", "for rule in ():"),
    ),
    _mutant(
        "the conflict check is made before the lock is taken",
        (
            "pudi.commit.transaction:Transaction._complete_validated",
            "    def check(now: Timeline) -> None:\n",
            "    early = meta.store.load()\n\n    def check(now: Timeline) -> None:\n        now = early\n",
        ),
    ),
    _mutant(
        "conflicts are looked for among the commits since the end of the write, not since its beginning",
        (
            "pudi.writes.commit_write:_conflicts",
            "metadata,\n        write.timeline,",
            "metadata,\n        write.meta.store.load(),",
        ),
    ),
    _mutant(
        "no lock is taken",
        (f"{_LOCK}._acquire", "while True:", "while False:"),
        (f"{_LOCK}.verify", "if held is not None:", "if False:"),
        (f"{_LOCK}.verify", "if held is None:", "if False:"),
    ),
    _mutant(
        "the lock is released before the instant appears",
        (
            f"{_STORE}.complete",
            "        self.lock.verify()\n        self._create(self.path(done)",
            "    self._create(self.path(done)",
        ),
    ),
    _mutant(
        "an expired lease is revived although another writer took it",
        (f"{_LOCK}.renew", "if self._has_expired(self._held[0]):", "if False:"),
        (
            f"{_LOCK}.renew",
            "self._held = (fresh, self._swap(fresh, self._held[1]))",
            "self._storage.put(STORAGE_LOCK, fresh.to_bytes()); "
            "self._held = (fresh, self._store.read_version(STORAGE_LOCK)[1])",
        ),
        wants=_stops,
    ),
    _mutant(
        "who holds the lock doesn't look whether the lease has run out",
        (f"{_LOCK}.verify", "if held is not None:", "if False:"),
        (f"{_LOCK}.verify", "if held is None:", "if False:"),
        wants=_stops,
    ),
    _mutant(
        "a lease that still runs is taken over",
        (f"{_LOCK}._try", "found.valid_until_ms + DRIFT_MS", "found.valid_until_ms - 9_950"),
    ),
    _mutant(
        "the lock file is put, not compared and swapped, and only the clock is asked whether it is still held",
        (
            f"{_LOCK}._try",
            "self._held = (fresh, self._store.replace(STORAGE_LOCK, fresh.to_bytes(), version))",
            "self._storage.put(STORAGE_LOCK, fresh.to_bytes()); "
            "self._held = (fresh, self._store.read_version(STORAGE_LOCK)[1])",
        ),
        (f"{_LOCK}.verify", "found = self._read()", "found = held[0]"),
    ),
    _mutant(
        "the commit is published before its metadata",
        (
            "pudi.commit.commit_hook:complete_with_metadata",
            "return store.complete(instant, said, partial(complete, check_all))",
            "done = store.complete(instant, said, check_all)\n"
            "                complete(lambda now: None, store.load())\n"
            "                return done",
        ),
        wants=_dies,
    ),
    _mutant(
        "metadata is written before the conflict check, and stays if that fails",
        (f"{_WORK}._commit", "    check(now)\n    meta, requested", "    meta, requested"),
        (f"{_WORK}._commit", "        each.finish(locked)\n", "        each.finish(locked)\n    check(now)\n"),
        ("pudi.commit.commit_hook:discard_metadata", "if meta.config.metadata_partitions:", "if False:"),
    ),
    _mutant(
        "a rollback forgets the metadata table",
        (
            "pudi.commit.commit_hook:roll_back_metadata_table",
            "if not meta.config.metadata_partitions:",
            "if True:",
        ),
        wants=_dies,
    ),
    _mutant(
        "below version 8, log files of an index go to a slice that was compacted meanwhile",
        (
            "pudi.metadata_write.index_logs:IndexLogs.verify",
            "own.timeline.rules.logs_name_their_slice and moved",
            "False",
        ),
        (
            "pudi.services.compaction:may_roll_back",
            "return any(i.requested <= newest for i in data.pending)",
            "return False",
        ),
        wants=lambda plan: plan.situation == "slow" and plan.kind.index == "record" and plan.kind.version == "6",
    ),
    _mutant(
        "a clean deletes what savepoints keep",
        (f"{_RETENTION}.of", "savepointed_names(snapshot)", "{}"),
        ("pudi.services.clean_plan:names_in_use", "savepointed_names(snapshot).items()", "()"),
        wants=lambda plan: plan.kind.services == "apart",
    ),
    _mutant(
        "a clean deletes what readers of retained commits need",
        (
            "pudi.services.clean_plan:earliest_to_retain",
            "commits[-options.commits_retained] if",
            "commits[-1] if",
        ),
    ),
    _mutant(
        "a clean deletes the file groups of a replacement at once",
        (f"{_RETENTION}.old", "if retained is None or replaced_at < retained else ()", ""),
    ),
    _mutant(
        "replacements are archived before the files that they replaced are deleted",
        (f"{_PLAN}:plan_archive", "for find in (replaced_files, _unknown_files):", "for find in ():"),
        wants=_clusters,
    ),
    _mutant(
        "commits are archived although a pending instant is older",
        (f"{_PLAN}:_before_pending", "if pending:", "if False:"),
        (f"{_PLAN}:_needed_by_clean", "first = earliest_to_retain(snapshot, options, newest)", "first = None"),
        wants=_towards("outlived"),
    ),
    _mutant(
        "heartbeats are ignored: a live writer is rolled back",
        (
            "pudi.concurrency.heartbeats:is_dead",
            "return age_ms > patience * expires_after_ms",
            "return True",
        ),
    ),
    _mutant(
        "a writer that was rolled back completes",
        (
            "pudi.timeline.guards:refuse_taken",
            "if current is None or current.state is not State.INFLIGHT or instant.requested in now.unrequested:",
            "if False:",
        ),
        ("pudi.commit.transaction:WriteTransaction.reconcile_markers", "if unmarked and", "if False and"),
        wants=_stops,
    ),
    _mutant(
        "a writer completes although its rollback has begun",
        ("pudi.timeline.guards:refuse_taken", "if target is not None and", "if False and"),
        wants=_towards("left for dead"),
    ),
    _mutant(
        "a process that lost the lock undoes what the next one did",
        ("pudi.client.meta_client:MetaClient.delete_locked", "self.lock.verify()", "pass"),
        (f"{_STORE}.discard", "self.lock.verify()", "pass"),
        wants=_towards("lost lock"),
    ),
    _mutant(
        "two runs of one plan write to the metadata table",
        (f"{_WORK}._verify", "self.commit.meta.lock.verify()", "pass"),
        (
            "pudi.task.metadata_files:append_changes",
            "storage.create(log.path, content)",
            "storage.put(log.path, content)",
        ),
        wants=_towards("lost lock"),
    ),
    _mutant(
        "writers are rolled back without the lock",
        ("pudi.commit.dead_writers:repair_dead_writes", "with meta.lock:", "if True:"),
        ("pudi.commit.rollback:roll_back", "with meta.lock:", "if True:"),
    ),
    _mutant(
        "two processes run one plan",
        ("pudi.commit.lease:_free", "or not is_available(meta, current, options)", ""),
        (
            "pudi.services.runner:_run_plans",
            "if is_available(target.meta, pending, target.write_options):",
            "if True:",
        ),
        (
            "pudi.commit.lease:ServiceLease.check",
            "if not self.is_newest() or not markers.issuperset(self.written):",
            "if False:",
        ),
    ),
    _mutant(
        "a plan is leased without a look at the lock",
        ("pudi.commit.lease:lease", "meta.lock.verify()", "pass"),
        wants=_stops,
    ),
    _mutant(
        "two runs of one plan write files of the same names",
        ("pudi.commit.lease:lease", 'int(meta.context.new_id().replace("-", "")[:12], 16) % _RUNS', "7"),
        wants=_stops,
    ),
    _mutant(
        "a service is planned without the lock",
        ("pudi.services.runner:schedule", "with meta.lock:", "if True:"),
    ),
    _mutant(
        "a lost answer is taken for a failure",
        (f"{_STORE}._create", "if not self._holds(path, content):", "if True:"),
        (
            "pudi.commit.transaction:WriteTransaction.held",
            "if found is None or found.state is not State.COMPLETED:",
            "if True:",
        ),
        wants=lambda plan: plan.weather.lost > 0.01,
    ),
    _mutant(
        "the completion time is made before the lock is taken",
        (
            f"{_STORE}.complete",
            "    with self.lock:\n",
            "    early = self.times.next(self.context.clock, self.load().newest_time, self.timezone_name)\n"
            "    with self.lock:\n",
        ),
        (
            f"{_STORE}.complete",
            "completion = self.times.next(self.context.clock, timeline.newest_time, self.timezone_name)",
            "completion = early",
        ),
        wants=lambda plan: plan.kind.version != "6",
    ),
    _mutant(
        "the requested time is made before the lock is taken",
        (
            f"{_STORE}.request",
            "    with self.lock:\n        requested = at or self._next_time(seen or self.load(), check)\n",
            "    requested = at or self._next_time(seen or self.load(), check)\n    with self.lock:\n",
        ),
    ),
    _mutant(
        "times are those of the writer's clock, whatever the timeline says",
        ("pudi.timeline.instant:new_instant", "if newest is None or now > newest:", "if True:"),
    ),
    _mutant(
        "two writers insert new keys into one partition",
        (f"{_CHECK}.check_inserts", "if shared:", "if False:"),
        wants=_towards("meeting", _clusters),
    ),
    _mutant(
        "a write into a partition that another one replaces counts for nothing",
        (f"{_CHECK}.check_replaced", "if both:", "if False:"),
        (
            "pudi.writes.replace_partitions:_partitions_read",
            "return [each for each in partitions if whole or each in replaced]",
            "return []",
        ),
        wants=_towards("meeting"),
    ),
    _mutant(
        "a statement misses records that another write brings",
        (f"{_CHECK}.check_reads", "if read:", "if False:"),
        wants=_towards("meeting"),
    ),
    _mutant(
        "a write to a file group of a pending clustering completes, and the clustering too",
        (f"{_CHECK}.check_clusterings", "for other, group in self.contradicted(now):", "for other, group in ():"),
        ("pudi.services.clustering_run:ClusteringRun.check", "if changed:", "if False:"),
        wants=_clusters,
    ),
    _mutant(
        "below version 8, a log file goes to a slice that a compaction takes",
        (f"{_CHECK}.check_compactions", "if both:", "if False:"),
        (f"{_CHECK}.check_compacted", "if now.rules.logs_name_their_slice:", "if False:"),
        wants=lambda plan: plan.kind.version == "6" and plan.kind.table_type == "mor",
    ),
    _mutant(
        "a write based on a scan doesn't ask whether the table has changed since",
        (f"{_CHECK}.check", "if self.unchanged is not None:", "if False:"),
        ("pudi.writes.write:_place_and_commit", "if write.unchanged is not None:", "if False:"),
        wants=_towards("meeting"),
    ),
    _mutant(
        "each writer begins a bucket's file group by an id of its own",
        ("pudi.tagging.bucket:Buckets.file_id", "if not self.shared:", "if True:"),
        (_NONBLOCKING, "if elsewhere:", "if False:"),
        nonblocking=True,
    ),
    _mutant(
        "the id of a replaced file group is given again",
        ("pudi.tagging.bucket:Buckets.file_id", "if (partition, each) not in self.retired", "if True"),
        nonblocking=True,
    ),
    _mutant(
        "a write to a file group that another one replaces completes without being planned again",
        (_NONBLOCKING, "if gone:", "if False:"),
        (_NONBLOCKING, "if elsewhere:", "if False:"),
        nonblocking=True,
    ),
    _mutant(
        "a delete that found no file group misses the bucket that another writer begins",
        (_NONBLOCKING, "if begun:", "if False:"),
        wants=_deletes_new_keys,
        nonblocking=True,
    ),
    _mutant(
        "an update that didn't see a write lies above it",
        (_NONBLOCKING, "if both:", "if False:"),
        wants=_updates_what_others_write,
        nonblocking=True,
    ),
)
