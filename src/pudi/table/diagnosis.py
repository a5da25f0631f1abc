"""The result of `doctor`, as values that print as a page and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pudi.filegroup import FileSlice
    from pudi.sync.compare import RegisteredState


class Level(str, Enum):
    """Urgency of a piece of advice."""

    WARNING = "warning"
    """Something is wrong, or will be."""
    HINT = "hint"
    """Something could be better."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice: what to do, and why."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Access:
    """Whether a release of Hudi or another reader can read and write the table.

    Attributes:
        who: a program and its versions.
        reads: whether it can read it.
        writes: whether it can write it.
        why: the reason why it can't, or a warning.
    """

    who: str
    reads: bool
    writes: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Base files of the newest slices between two sizes.

    Attributes:
        least: bytes, inclusive.
        most: bytes, exclusive; None for no limit.
        files: how many.
        bytes: of all of them.
    """

    least: int
    most: int | None
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FileCounts:
    """The files that a reader of the newest state sees.

    Attributes:
        partitions: how many hold data.
        file_groups: how many there are, each with one current file slice.
        base_files: their base files.
        base_bytes: bytes of these.
        log_files: their log files.
        log_bytes: bytes of these.
    """

    partitions: int
    file_groups: int
    base_files: int
    base_bytes: int
    log_files: int
    log_bytes: int


def counts(slices: Sequence[FileSlice]) -> dict[str, int]:
    """Return the attributes of `FileCounts` for the newest slices."""
    bases = [each.base for each in slices if each.base is not None]
    logs = [log for each in slices for log in each.logs]
    return {
        "partitions": len({each.partition for each in slices}),
        "file_groups": len(slices),
        "base_files": len(bases),
        "base_bytes": sum(each.size for each in bases),
        "log_files": len(logs),
        "log_bytes": sum(each.size for each in logs),
    }


@dataclass(frozen=True, slots=True)
class FileFacts(FileCounts):
    """The table's files.

    Attributes:
        most_logs: log files of the file group with the most.
        small_limit: bytes below which a base file counts as small.
        small_files: how many do.
        most_small: the partition with the most of them, and how many.
        older_files: files of older slices, and of writes that are under way or died.
        older_bytes: their bytes.
        histogram: base files of the newest slices by size.
    """

    most_logs: int
    small_limit: int
    small_files: int
    most_small: tuple[str, int]
    older_files: int
    older_bytes: int
    histogram: tuple[SizeClass, ...]


@dataclass(frozen=True, slots=True)
class Pending:
    """An instant that isn't completed.

    Attributes:
        instant: requested time.
        action: the action.
        state: how far it is.
        age_seconds: since it was requested.
        writer: `alive`, `dead`, or `unknown`: one that gives no heartbeat, and was at work lately.
        blocks: what waits for it.
        problem: why its plan can't be read, and what to do about it; empty if it can.
    """

    instant: str
    action: str
    state: str
    age_seconds: int
    writer: str
    blocks: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ServiceBacklog:
    """Commits that wait for a table service, beyond those that the options leave to wait.

    Attributes:
        service: the service's name.
        on: `table` or `metadata table`.
        commits: how many wait.
        blocked_by: requested time of the instant that keeps the service from them; None without one.
        reason: when the service is due, and what holds it back.
    """

    service: str
    on: str
    commits: int
    blocked_by: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class FailingService:
    """A table service that failed at its last attempt.

    Attributes:
        service: the service's name.
        on: `table` or `metadata table`.
        error: the last error.
        times: number of failures in a row.
        since: the first of them, in ISO format, UTC.
        next_attempt: until then writers and maintenances pass it over, in ISO format, UTC.
    """

    service: str
    on: str
    error: str
    times: int
    since: str
    next_attempt: str


@dataclass(frozen=True, slots=True)
class FutureInstants:
    """Instants in the future: of a writer with a fast clock, and of all writers after it.

    Attributes:
        first: requested time of the oldest.
        action: the action.
        newest: the newest time among them, requested or completed.
        count: how many there are.
        ahead_seconds: from now to `newest`.
    """

    first: str
    action: str
    newest: str
    count: int
    ahead_seconds: int


@dataclass(frozen=True, slots=True)
class MetadataFacts:
    """The metadata table.

    Attributes:
        problem: why it can't be used; empty where it can.
        deltas: its commits since its last compaction.
        instants: on its active timeline.
    """

    problem: str
    deltas: int
    instants: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """Overlap of files' value ranges in one column, by column statistics.

    Each number is the average share of the files that a filter for one value keeps, for values from the middle of each
    file's range: 1 if all ranges overlap. It's None where statistics don't tell.

    Attributes:
        column: the column.
        before: among the files that the clustering replaced.
        after: among those that it made.
        now: among the files of the newest slices.
    """

    column: str
    before: float | None
    after: float | None
    now: float | None


@dataclass(frozen=True, slots=True)
class ClusteringFacts:
    """The last clustering.

    Attributes:
        instant: its requested time.
        columns: the columns that it ordered by; empty if it only put files together.
        layout: the layout that its plan states; None if it states none.
        groups: number of groups of the plan.
        files_before: number of file slices that it replaced.
        files_after: number of files that it made.
        overlaps: what it gained, by column.
    """

    instant: str
    columns: tuple[str, ...]
    layout: str | None
    groups: int
    files_before: int
    files_after: int
    overlaps: tuple[Overlap, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """State of a table.

    Attributes:
        path: its root.
        facts: facts about the table, by name.
        access: programs that can read and write it.
        files: its files.
        pending: what isn't completed.
        metadata: its metadata table; None where it has none.
        future: instants that lie in the future; None where there are none.
        orphans: paths of data files, markers and folders that dead writers left.
        finished: instants of dead writers that left nothing but their heartbeat and markers.
        backlog: commits that wait for table services.
        failing: table services that failed at their last attempt.
        clustering: the last clustering; None where the active timeline has none.
        problem: why its files can't be read; empty where they can.
        upgrade: the upgrade of its version that is under way, or died; empty where there's none.
        catalogs: its entries in the catalogs that options name.
        advice: what to do, the most pressing first.
    """

    path: str
    facts: Mapping[str, str]
    access: tuple[Access, ...]
    files: FileFacts
    pending: tuple[Pending, ...] = ()
    metadata: MetadataFacts | None = None
    future: FutureInstants | None = None
    orphans: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    backlog: tuple[ServiceBacklog, ...] = ()
    failing: tuple[FailingService, ...] = ()
    clustering: ClusteringFacts | None = None
    problem: str = ""
    upgrade: str = ""
    catalogs: tuple[RegisteredState, ...] = ()
    advice: tuple[Advice, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether there's nothing to warn of."""
        return all(each.level is not Level.WARNING for each in self.advice)

    def advised(self, advice: tuple[Advice, ...]) -> Diagnosis:
        """The same with advice."""
        return replace(self, advice=advice)

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        plain = asdict(self)
        plain["advice"] = [{"level": each.level.value, "text": each.text} for each in self.advice]
        return {"ok": self.ok, **plain}
