"""Writes beside others: claims of file groups (pessimistic), and non-blocking writes to shared file groups.

Source: HoodieWriteConfig.validate, CommonClientUtils.validateTableVersion, BaseSparkBucketIndexBucketInfoGetter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from posixpath import basename

from pudi.client import MetaClient
from pudi.concurrency import Claim, Claimed, NonBlocking, TimelineBehindError
from pudi.concurrency.conflicts import READS
from pudi.config import NON_BLOCKING, LockSettings, Options, WriteOptions
from pudi.config.table_options import MERGE_ON_READ
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.filegroup import Replacements
from pudi.format import CommitMetadata, parse_log_file
from pudi.indexes import registry
from pudi.plan import Operation, WritePlan
from pudi.tagging import Buckets, Index
from pudi.timeline import Timeline
from pudi.writes.write_recipe import Placement, WriteAttempt


@contextmanager
def claiming(write: WriteAttempt) -> Iterator[Claim | None]:
    """Yield the claim of one attempt, which claims no partition yet; None for a writer without claims."""
    settings, options, meta = LockSettings.of(write.options), write.write_options, write.meta
    if not settings.claims:
        yield None
        return
    claim = Claim(
        meta.storage, meta.context, options.heartbeat_interval_ms, options.heartbeat_expiry_ms, settings.claim_wait_ms
    )
    try:
        yield claim
    finally:
        claim.release()


def take_claim(write: WriteAttempt, placed: Placement, claim: Claim | None) -> None:
    """Claim what a write is about to change.

    Raises:
        TimelineBehindError: earlier claims were waited for, so the write must be planned again.
        BlockedError: they stood for too long.
    """
    if claim is None:
        return
    with write.report.phase("claim"):
        waited = claim.take(_claimed(write, placed))
    if waited:
        raise TimelineBehindError("other writes have changed the same file groups", table=write.table)


def _claimed(write: WriteAttempt, placed: Placement) -> Claimed:
    """Return what a write will change or reads: file groups where they are known, else partitions."""
    whole, inserts = set[str](), set[str]()
    if isinstance(placed.plan, WritePlan):
        inserts = {task.partition for task in placed.plan.tasks if task.location is None}
    elif placed.plan is not None:  # its tasks find out the file groups
        whole = {task.partition for task in placed.plan}
    if placed.reads is not None:
        whole |= set(placed.reads(write.snapshot.listing().partitions()))
    return Claimed(frozenset(placed.known_groups), frozenset(whole), frozenset(inserts))


_FIRST_VERSION = 8
_BY_BUCKET = frozenset({Operation.UPSERT, Operation.INSERT, Operation.DELETE})
"""Operations that write to buckets whatever these hold."""
_FROM_RECORDS = ("record_index", "secondary_index_")
"""Names, or their beginnings, of indexes whose entries follow from the records before the write."""


def is_nonblocking(options: Options) -> bool:
    """Return whether a writer's options ask for non-blocking concurrency control."""
    return options[WriteOptions.concurrency_mode] == NON_BLOCKING


def check_nonblocking(meta: MetaClient, options: Options, index: Index, operation: Operation) -> None:
    """Refuse non-blocking concurrency control where records would be lost, or Hudi has none.

    Raises:
        InvalidArgumentError: another option contradicts it.
        NotSupportedError: the table, or the operation, can't have it.
    """
    if not is_nonblocking(options):
        return
    asked, root = f"{WriteOptions.concurrency_mode}={NON_BLOCKING}", meta.storage.root
    policy = WriteOptions.failed_writes_policy
    for wrong, contradicts in (
        (f"{policy}=EAGER", options[policy] == "EAGER"),
        (f"{LockSettings.early_detection}=true", LockSettings.of(options).early_detection),
        (f"{LockSettings.claims}=true", LockSettings.of(options).claims),
    ):
        if contradicts:
            raise InvalidArgumentError(f"{asked} and {wrong} exclude each other: leave one of them out", table=root)
    reason = _lacks(meta, options, index) or _refusal(operation)
    if reason is not None:
        raise NotSupportedError(f"{asked} {reason}", table=root)


def _lacks(meta: MetaClient, options: Options, index: Index) -> str | None:
    """Return why a table excludes non-blocking writes; None if it doesn't."""
    config = meta.config
    other = "use OPTIMISTIC_CONCURRENCY_CONTROL"
    if config.version < _FIRST_VERSION:
        return f"in a table of version {config.version}: it needs version 8, see Table.upgrade, or {other}"
    if config.table_type != MERGE_ON_READ or not isinstance(index.buckets, Buckets):
        needed = f"needs a merge-on-read table with a simple bucket index ({WriteOptions.index_type}=BUCKET)"
        return f"{needed}, as in Hudi; {other}"
    if config.cdc_enabled:
        return f"in a table that logs changes: the records before a change wouldn't be those of its log; {other}"
    asked = (spec.partition for kind in registry.KINDS for spec in kind.wanted(meta, options))
    indexes = (*config.metadata_partitions, *config.metadata_partitions_inflight, *asked)
    found = next((name for name in indexes if name.startswith(_FROM_RECORDS)), None)
    if found is not None:
        return f"in a table with the index {found}: writers that don't wait for each other would contradict it; {other}"
    return None


def _refusal(operation: Operation) -> str | None:
    if not operation.replaces:
        return None
    return (
        f"with {operation.value.lower()}, which Hudi refuses or doesn't check: do it with "
        f"{WriteOptions.concurrency_mode}=OPTIMISTIC_CONCURRENCY_CONTROL; it is then compared with all other writes"
    )


def shared_index(meta: MetaClient, timeline: Timeline, options: Options, index: Index) -> Index:
    """Return the index of a write: by non-blocking concurrency control all writers give a bucket the same file id."""
    if not is_nonblocking(options) or not isinstance(index.buckets, Buckets):
        return index
    retired = frozenset(Replacements.of(meta.store, timeline).instants)
    return replace(index, buckets=replace(index.buckets, shared=True, retired=retired))


def finds_groups_late(index: Index, operation: Operation) -> bool:
    """Return whether a delete must say in which buckets it found no file group, since another writer may begin one."""
    return operation is Operation.DELETE and index.fixed_buckets is not None and index.fixed_buckets.shared


def nonblocking_of(write: WriteAttempt, placed: Placement, written: CommitMetadata) -> NonBlocking | None:
    """Return what is checked of a write that needs no other check; None for one that goes by the ordinary rules.

    These are bulk inserts, which write base files, and what depends on records that are there.
    """
    logs_only = all(parse_log_file(basename(stat.path or "")) is not None for stat in written.stats)
    blind = write.operation in _BY_BUCKET and not _reads(write, placed)
    if not (is_nonblocking(write.options) and blind and logs_only):
        return None
    return NonBlocking(placed.plan.unfound if isinstance(placed.plan, WritePlan) else frozenset())


def read_marks(write: WriteAttempt, placed: Placement) -> dict[str, str]:
    """Return what a commit says for writers by non-blocking concurrency control, in a table that may have some."""
    config, buckets = write.meta.config, placed.index.fixed_buckets
    may_have = buckets is not None and config.version >= _FIRST_VERSION and write.meta.merges_on_read
    return {READS: "true"} if may_have and _reads(write, placed) else {}


def _reads(write: WriteAttempt, placed: Placement) -> bool:
    return placed.reads is not None or write.unchanged is not None
