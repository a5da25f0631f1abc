"""Metrics of actions, by Hudi's names: the timeline tells when an instant begins and what it did.

Source: HoodieMetrics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from pudi.config import MetricsOptions, Options
from pudi.context import Clock
from pudi.context.runtime import lazy_module
from pudi.errors import ConflictError
from pudi.format import Action, CommitMetadata, WriteStat, decode_avro, instant_to_millis
from pudi.storage import StorageBelow
from pudi.timeline import Instant, Timeline, TimelineStore

if TYPE_CHECKING:
    from pudi.metrics import reporters
else:
    reporters = lazy_module("pudi.metrics.reporters")

_log = logging.getLogger(__name__)

_METADATA = "_metadata"
"""Suffix of the metadata table's prefix, as of its name (HoodieMetadataWriteUtils)."""
_OF_VERBS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.COMPACTION, Action.LOGCOMPACTION,
                       Action.CLUSTERING, Action.INDEXING, Action.CLEAN})  # fmt: skip
"""Actions whose duration counts from the call of the verb or service."""

_started: ContextVar[float | None] = ContextVar("pudi_started", default=None)

_Total = Callable[[WriteStat], int]
_TOTALS: Mapping[str, _Total] = {
    "totalFilesInsert": lambda s: s.prev_commit == "null",
    "totalFilesUpdate": lambda s: s.prev_commit not in {None, "null"},
    "totalRecordsWritten": lambda s: s.num_writes,
    "totalUpdateRecordsWritten": lambda s: s.num_update_writes,
    "totalInsertRecordsWritten": lambda s: 0 if s.prev_commit is None else s.num_inserts,
    "totalRecordsDeleted": lambda s: s.num_deletes,
    "totalBytesWritten": lambda s: s.total_write_bytes,
    "totalScanTime": lambda s: 0 if s.runtime_stats is None else s.runtime_stats.total_scan_time,
    "totalCreateTime": lambda s: 0 if s.runtime_stats is None else s.runtime_stats.total_create_time,
    "totalUpsertTime": lambda s: 0 if s.runtime_stats is None else s.runtime_stats.total_upsert_time,
    "totalCompactedRecordsUpdated": lambda s: s.total_updated_records_compacted,
    "totalLogRecordsCompacted": lambda s: s.total_log_records,
    "totalLogFilesCompacted": lambda s: s.total_log_files_compacted,
    "totalLogFilesSize": lambda s: s.total_log_size_compacted,
}
"""Sums over the files of a commit (HoodieCommitMetadata)."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Reports what the actions of one table did.

    Attributes:
        options: who gets it.
        prefix: what names begin with.
        is_metadata: whether the table is a metadata table.
        store: the table's timeline.
        began: when pending instants of this process began, by requested time.
    """

    options: MetricsOptions
    prefix: str
    is_metadata: bool
    store: TimelineStore
    began: dict[str, float] = field(default_factory=dict)

    def open(self) -> None:
        """Open the reporter, before an action begins.

        Raises:
            SetupError: its package is missing, or its port is taken.
        """
        reporters.open_reporter(self.options, self.store.context)

    @contextmanager
    def measured(self, action: str, figures: Mapping[str, int]) -> Iterator[None]:
        """Report a block as an action without an instant; what it did is in `figures` at its end."""
        self.open()
        began = self.store.context.clock.monotonic()
        try:
            yield
        except BaseException as error:
            self.fail(action, error)
            raise
        took = self.store.context.clock.monotonic() - began
        self._send(action, lambda: {**figures, "duration": round(took * 1000)}, "success")

    def fail(self, action: str, error: BaseException) -> None:
        """Count a failed action, and a lost conflict."""
        self._send(action, dict, "failure")
        if isinstance(error, ConflictError):
            self._send("conflict_resolution", dict, "failure")

    def _send(self, action: str, figures: Callable[[], Mapping[str, int]], outcome: str) -> None:
        try:
            reporter = reporters.open_reporter(self.options, self.store.context)
            reporter.report(self.prefix, action, figures(), f"{outcome}.counter", self.options.labels)
        except Exception:  # noqa: BLE001 - an action has completed, or has an error of its own
            _log.warning("table %s: metrics of its %s are lost", self.store.storage.root, action, exc_info=True)

    def start(self, instant: Instant) -> None:
        """Note that an instant begins in this process."""
        now, since = self.store.context.clock.monotonic(), None
        if instant.action in _OF_VERBS and not self.is_metadata:
            since = _started.get()
            _started.set(None)
        self.began[instant.requested] = now if since is None else since

    def complete(self, instant: Instant, content: bytes | CommitMetadata) -> None:
        """Report a completed instant.

        Args:
            instant: the instant, as it was pending.
            content: content of its completed file.
        """
        began = self.began.pop(instant.requested, None)
        took = None if began is None else round((self.store.context.clock.monotonic() - began) * 1000)
        self._send(instant.action.value, lambda: self._figures(instant, content, took), "success")

    def _figures(self, instant: Instant, content: bytes | CommitMetadata, took: int | None) -> dict[str, int]:
        timed = {} if took is None else {"duration": took}
        if isinstance(content, CommitMetadata):
            return {
                **timed,
                "totalPartitionsWritten": len(content.partition_to_write_stats),
                **{name: sum(map(total, content.stats)) for name, total in _TOTALS.items()},
                **self._times(instant, content.stats, took or 0),
            }
        if instant.action in {Action.CLEAN, Action.ROLLBACK} and content:
            return {**timed, "numFilesDeleted": int(decode_avro(content).get("totalFilesDeleted") or 0)}
        return timed

    def _times(self, instant: Instant, stats: Sequence[WriteStat], took: int) -> dict[str, int]:
        """Return the commit's time, and how old its records are where event times are tracked; milliseconds."""
        if instant.requested.startswith("0000"):  # instants that build a metadata table count from zero: no moments
            return {}
        at = instant_to_millis(instant.requested[:17], self.store.timezone_name)
        oldest = [stat.min_event_time for stat in stats if stat.min_event_time is not None]
        newest = [stat.max_event_time for stat in stats if stat.max_event_time is not None]
        latency = {"commitLatencyInMs": at + took - min(oldest)} if oldest else {}
        freshness = {"commitFreshnessInMs": at + took - max(newest)} if newest else {}
        return {"commitTime": at, **latency, **freshness}


@dataclass(frozen=True, slots=True)
class MeteredStore(TimelineStore):
    """A timeline that reports the instants that this process completes.

    Args:
        metrics: gets them.
    """

    metrics: Metrics = field(kw_only=True)

    def request(
        self,
        action: Action,
        content: bytes = b"",
        on_requested: Callable[[str], None] | None = None,
        *,
        at: str | None = None,
        seen: Timeline | None = None,
        durable: bool = True,
        check: Callable[[Timeline], None] | None = None,
    ) -> Instant:
        """Open the reporter, and put a new instant on the timeline; see `TimelineStore`."""
        self.metrics.open()
        return TimelineStore.request(
            self, action, content, on_requested, at=at, seen=seen, durable=durable, check=check
        )

    def start(self, instant: Instant, content: bytes | CommitMetadata = b"", *, shared: bool = False) -> Instant:
        """Move a requested instant to INFLIGHT; see `TimelineStore`."""
        started = TimelineStore.start(self, instant, content, shared=shared)
        self.metrics.start(instant)
        return started

    def complete(
        self,
        instant: Instant,
        content: bytes | CommitMetadata,
        check: Callable[[Timeline], None] | None = None,
        *,
        listed: Timeline | None = None,
        also: Sequence[str] | None = None,
    ) -> Instant:
        """Move an inflight instant to COMPLETED, and report it; see `TimelineStore`."""
        done = TimelineStore.complete(self, instant, content, check, listed=listed, also=also)
        self.metrics.complete(instant, content)
        return done


def metered(store: TimelineStore, options: Options, name: str) -> TimelineStore:
    """Return a timeline that reports what is done.

    Args:
        store: the timeline.
        options: who gets it.
        name: the table's name.

    Raises:
        NotSupportedError: the options name no reporter.
        InvalidArgumentError: they contradict each other.
    """
    view = MetricsOptions.of(options)
    is_metadata = isinstance(store.storage, StorageBelow)
    prefix = view.prefix + (_METADATA if is_metadata else "") if view.prefix else name
    known = {each.name: getattr(store, each.name) for each in fields(TimelineStore) if each.init}
    return MeteredStore(**known, metrics=Metrics(view, prefix.replace(".", "_"), is_metadata, store))


def note_start(clock: Clock) -> None:
    """Note that a verb or service begins in this thread."""
    _started.set(clock.monotonic())


def metrics_of(store: TimelineStore) -> Metrics | None:
    """Return what a timeline reports to; None if it reports nothing."""
    return store.metrics if isinstance(store, MeteredStore) else None
