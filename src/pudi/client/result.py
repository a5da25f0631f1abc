"""The result of a verb, and the work beside a commit whose failure it reports."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from pudi.catalogs import SyncResult
from pudi.context import Clock
from pudi.context.progress import phase
from pudi.format import CommitMetadata
from pudi.timeline import Instant

_log = logging.getLogger(__name__)

CLEAN_UP, METADATA_TABLE = "clean-up", "metadata table"
"""Names in `CommitResult.failed_services` of work that may fail beside a commit."""


def after_commit(
    service: str, table: str, failed: dict[str, str] | None = None, *, retried: bool = True
) -> AbstractContextManager[None]:
    """Do something after a commit. If it fails, log the error with its traceback, and go on.

    The next commit or the next writer's repair does what was left undone.

    Args:
        service: its name.
        table: the table's root.
        failed: where the error is noted by the service's name.
        retried: whether a later commit tries again.
    """
    again = ", and will be tried again" if retried else ""
    return _noting(f"the commit stands, but the {service} after it failed{again}", service, table, failed)


@contextmanager
def _noting(what: str, service: str, table: str, failed: dict[str, str] | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the commit doesn't depend on it
        _log.warning("table %s: %s: %s", table, what, error, exc_info=True)
        if failed is not None:
            failed[service] = f"{type(error).__name__}: {error}"


_SHOWN_SECONDS = 0.01
"""Seconds from which on a phase is worth a word."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A completed commit.

    Attributes:
        instant: requested time, what `as_of` takes.
        completion_time: completion time, what to pass as the next `since`; below table version 8 the instant itself.
        operation: what was done, by Hudi's name (`UPSERT`, …).
        records_inserted: new records.
        records_updated: records replaced by a newer version.
        records_deleted: deleted records.
        files_written: data files.
        files_replaced: file groups that an overwrite or a delete of partitions replaced; their records are not
            counted.
        failed_services: errors after the completed commit, by service (`compaction`, `metadata table`,
            `clean-up`): the error's type and message. The log holds the traceback; the next commit tries again.
        bytes_written: bytes of these files.
        duration: seconds from the call to completion.
        phases: seconds by phase, of the attempt that was completed.
        files_deleted: data files that a clean deleted.
        attempts: number of attempts; more than one after conflicts with other writers.
        syncs: what was registered in catalogs after the commit, where options asked for it. One that failed stands in
            `failed_services`.
    """

    instant: str
    completion_time: str
    operation: str
    records_inserted: int
    records_updated: int
    records_deleted: int
    files_written: int
    bytes_written: int
    duration: float
    phases: Mapping[str, float] = field(default_factory=dict)
    files_replaced: int = 0
    failed_services: Mapping[str, str] = field(default_factory=dict)
    attempts: int = 1
    files_deleted: int = 0
    syncs: tuple[SyncResult, ...] = ()

    def __str__(self) -> str:
        """Format as one line: operation, records, files, seconds."""
        records = {"inserted": self.records_inserted, "updated": self.records_updated, "deleted": self.records_deleted}
        said = [f"{number:,} {what}" for what, number in records.items() if number]
        if self.files_replaced:
            said.append(f"{self.files_replaced:,} file group{_plural(self.files_replaced)} replaced")
        if self.files_written or not self.files_deleted:
            size = f" of {size_text(self.bytes_written)}" if self.files_written else ""
            said.append(f"{self.files_written:,} file{_plural(self.files_written)}{size}")
        if self.files_deleted:
            said.append(f"{self.files_deleted:,} file{_plural(self.files_deleted)} deleted")
        phases = ", ".join(
            f"{name} {seconds:.2f}" for name, seconds in self.phases.items() if seconds >= _SHOWN_SECONDS
        )
        line = f"{self.operation} {self.instant}: {', '.join(said)}; {self.duration:.2f} s" + (
            phases and f" ({phases})"
        )
        if self.attempts > 1:
            line += f"; {self.attempts} attempts"
        line += "".join(f"; registered in {sync}" for sync in self.syncs)
        return line + "".join(f"; {name} failed: {error}" for name, error in self.failed_services.items())

    @classmethod
    def of(
        cls, done: Instant, metadata: CommitMetadata, duration: float, phases: Mapping[str, float], deleted: int = 0
    ) -> CommitResult:
        """Return the result of a completed instant, from its commit metadata."""
        stats = metadata.stats
        return cls(
            instant=done.requested,
            completion_time=done.completion or done.requested,  # layout 1 has no completion time
            operation=metadata.operation_type or "",
            records_inserted=sum(s.num_inserts or 0 for s in stats),
            records_updated=sum(s.num_update_writes or 0 for s in stats),
            records_deleted=sum(s.num_deletes or 0 for s in stats),
            files_written=len(stats),
            bytes_written=sum(s.total_write_bytes or 0 for s in stats),
            duration=duration,
            phases=dict(phases),
            files_deleted=deleted,
            files_replaced=sum(map(len, (metadata.partition_to_replace_file_ids or {}).values())),
        )


@dataclass(slots=True)
class ActionReport:
    """The account of one action: the seconds of its phases, and what failed beside its commit.

    Attributes:
        table: the table's root.
        action: the action's name in the log and in progress reports.
        clock: the table's clock.
        began: when the action began, on that clock.
        seconds: by phase; a phase may come more than once.
        failed: errors of services and of other work beside the commit, by name.
    """

    table: str
    action: str
    clock: Clock
    began: float
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a block as a phase, and report it."""
        began = self.clock.monotonic()
        with phase(self.table, self.action, name):
            yield
        seconds = self.clock.monotonic() - began
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        _log.info("table %s: %s: %s took %.2f s", self.table, self.action, name, seconds)

    def before_commit(self, service: str) -> AbstractContextManager[None]:
        """Do something before the commit. If it fails, note and log the error, and go on; a later commit retries."""
        what = f"the {service} before a commit failed, and will be tried again"
        return _noting(what, service, self.table, self.failed)

    def after_commit(self, service: str, *, retried: bool = True) -> AbstractContextManager[None]:
        """Do something after the commit; note its failure, and go on: see `after_commit`."""
        return after_commit(service, self.table, self.failed, retried=retried)

    def result(self, done: Instant, written: CommitMetadata, deleted: int = 0) -> CommitResult:
        """Return the result of the completed action, and log it.

        What fails later is still added to its `failed_services`.

        Args:
            done: the completed instant.
            written: its commit metadata.
            deleted: number of data files that it deleted.
        """
        result = CommitResult.of(done, written, self.clock.monotonic() - self.began, self.seconds, deleted)
        _log.info("table %s: %s", self.table, result)
        return replace(result, failed_services=self.failed)


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


def size_text(count: float) -> str:
    """Format a number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
