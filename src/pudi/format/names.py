"""Names of instants, data files and markers: a name in, one frozen value for its kind out, and back."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Literal, NamedTuple

from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError

TimelineZone = Literal["UTC", "LOCAL"]
"""The values of `hoodie.table.timeline.timezone`: UTC, or the zone of the machine that asks."""

INIT_INSTANT = "00000000000000"
"""Reserved: older than any instant."""

_INSTANT_TIME = re.compile(r"[0-9]{14}(?:[0-9]{3}(?:[0-9]{3}){0,2})?")
_FIELDS = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})(?:([0-9]{3})[0-9]*)?")


@lru_cache(maxsize=4096)  # many files, few instants
def is_instant_time(text: str) -> bool:
    """Return whether `text` looks like an instant time: 17 digits, or 14 or 20 in tables of old releases.

    A service of a metadata table of version 6 adds three digits to the newest delta commit's time, and so has 23 where
    that made a partition.

    The reserved instants and those of a new metadata table are no dates but have the shape.
    """
    return _INSTANT_TIME.fullmatch(text) is not None


def instant_to_millis(instant: str, tz: TimelineZone) -> int:
    """The moment that an instant time names (HoodieInstantTimeGenerator).

    Args:
        instant: `yyyyMMddHHmmssSSS`; with 14 digits the last millisecond of that second is meant; of more than 17
            digits, as in metadata tables of version 6, the first 17 count.
        tz: zone that the text is written in. Local times that come twice a year mean the earlier moment.

    Returns:
        Milliseconds since the epoch.

    Raises:
        InvalidArgumentError: the text is no calendar date.
    """
    match = _FIELDS.fullmatch(instant)
    if match is None:
        raise InvalidArgumentError(
            f"{instant!r} is not an instant time: expected 17 digits, yyyyMMddHHmmssSSS, or the 14 up to the second"
        )
    *fields, millis = match.groups(default="999")
    year, month, day, hour, minute, second = (int(field) for field in fields)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc if tz == "UTC" else None)
        return int(moment.timestamp()) * 1000 + int(millis)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidArgumentError(f"instant time {instant!r} is not a date: {error}") from error


def millis_to_instant(millis: int, tz: TimelineZone) -> str:
    """The 17-digit instant time of a moment.

    Args:
        millis: milliseconds since the epoch.
        tz: zone to write it in.

    Raises:
        InvalidArgumentError: the moment lies outside the years 1 to 9999.
    """
    seconds, rest = divmod(millis, 1000)
    try:
        moment = datetime.fromtimestamp(seconds, timezone.utc if tz == "UTC" else None)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidArgumentError(f"{millis} ms since the epoch has no instant time: {error}") from error
    return (
        f"{moment.year:04}{moment.month:02}{moment.day:02}{moment.hour:02}{moment.minute:02}{moment.second:02}{rest:03}"
    )


Layout = Literal[1, 2]
"""Timeline layout: 1 in table versions up to 7, 2 from 8 on."""


class Action(str, Enum):
    """Action of an instant (HoodieTimeline)."""

    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    REPLACECOMMIT = "replacecommit"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    CLUSTERING = "clustering"
    INDEXING = "indexing"
    SCHEMACOMMIT = "schemacommit"

    @property
    def comparable(self) -> Action:
        """The action under which this one completes; with the requested time it tells instants apart.

        Source: InstantComparatorV2. compaction is commit, logcompaction is deltacommit, clustering is replacecommit,
        any other action is itself.
        """
        return _COMPLETES_AS.get(self, self)

    @property
    def is_planned(self) -> bool:
        """Whether any process may run a pending plan of the action: a writer leaves such instants alone."""
        return self in _PLANNED


_PLANNED = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING, Action.CLEAN})
_COMPLETES_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}

WRITE_ACTIONS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
"""Actions that make data files visible when completed."""


class State(IntEnum):
    """State of an instant, in the order of progress."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


_INSTANT_FILE = re.compile(r"([0-9]+)(?:_([0-9]+))?\.([a-z]+)(?:\.(requested|inflight))?")
_INFLIGHT = "inflight"
_PENDING = {"requested": State.REQUESTED, _INFLIGHT: State.INFLIGHT}
_PENDING_SUFFIX = {state: suffix for suffix, state in _PENDING.items()}


@dataclass(frozen=True, slots=True)
class InstantFile:
    """One file of the timeline: an instant in one state.

    Always holds: a completed instant has a comparable action (never compaction, logcompaction, clustering); only a
    completed instant has a completion time; a savepoint is never merely requested.

    Attributes:
        requested: time at which the action was requested; the instant's name in the table.
        action: the action.
        state: how far it has come.
        completion: time at which it was completed; None while pending, in layout 1, and in layout 2 for a file of a
            table that was upgraded and not yet rewritten (its modification time counts then).
    """

    requested: str
    action: Action
    state: State
    completion: str | None = None

    def __post_init__(self) -> None:
        for time in (self.requested, self.completion):
            if time is not None and not (time.isascii() and time.isdigit()):
                raise InvalidArgumentError(f"{time!r} is not an instant time: expected digits only")
        if self.state is State.COMPLETED and self.action is not self.action.comparable:
            raise InvalidArgumentError(f"a completed {self.action.value} is a {self.action.comparable.value}")
        if self.state is not State.COMPLETED and self.completion is not None:
            raise InvalidArgumentError(f"pending instant {self.requested} can't have a completion time")
        if self.state is State.REQUESTED and self.action is Action.SAVEPOINT:
            raise InvalidArgumentError("a savepoint has no requested state")

    @property
    def sort_key(self) -> tuple[str, str, State]:
        """Order of the timeline: requested time, comparable action, state."""
        return (self.requested, self.action.comparable.value, self.state)

    def inflight(self) -> InstantFile:
        """The same instant, inflight."""
        return InstantFile(self.requested, self.action, State.INFLIGHT)

    def completed(self, completion: str | None) -> InstantFile:
        """The same instant, completed at `completion` (None in layout 1) under its comparable action."""
        return InstantFile(self.requested, self.action.comparable, State.COMPLETED, completion)

    def file_name(self, layout: Layout = 2) -> str:
        """Return the name of the instant's file in the timeline folder (InstantFileNameGeneratorV1, V2).

        Raises:
            InvalidArgumentError: the layout has no name for the instant.
        """
        _check_layout(layout)
        if self.state is not State.COMPLETED:
            if layout == 1 and self.action is Action.CLUSTERING:
                raise InvalidArgumentError("layout 1 knows pending clustering as replacecommit only")
            suffix = _PENDING_SUFFIX[self.state]
            if self.state is State.INFLIGHT and self.action is Action.COMMIT:
                return f"{self.requested}.{suffix}"
            return f"{self.requested}.{self.action.value}.{suffix}"
        if self.completion is None:
            return f"{self.requested}.{self.action.value}"
        if layout == 1:
            raise InvalidArgumentError("layout 1 keeps no completion time in file names")
        return f"{self.requested}_{self.completion}.{self.action.value}"


class FileGroupId(NamedTuple):
    """A file group of a table (HoodieFileGroupId).

    Attributes:
        partition: partition path, empty in a table without partitions.
        file_id: id of the file group, unique in its partition.
    """

    partition: str
    file_id: str

    @property
    def text(self) -> str:
        """The words by which messages name it."""
        return f"file group {self.file_id} of partition {self.partition!r}"


@lru_cache(maxsize=1 << 13)  # a write lists the timelines several times
def parse_instant_file(name: str, layout: Layout = 2) -> InstantFile | None:
    """The instant that a file of the timeline folder stands for.

    Args:
        name: file name, without folders.
        layout: layout of the timeline that the file lies in.

    Returns:
        The instant, or None when the file is none (checksum files, half-written ones, folders): ignore it.

    Raises:
        CorruptError: the name is an instant's, but with a time that is no calendar date.
    """
    _check_layout(layout)
    match = _INSTANT_FILE.fullmatch(name)
    if match is None:
        return None
    requested, completion, word, pending = match.groups()
    if word == _INFLIGHT:
        word, pending, bare = Action.COMMIT.value, _INFLIGHT, pending is None
    else:
        # An inflight commit's name lacks its action; with it, the file is not Hudi's.
        bare = (word, pending) != (Action.COMMIT.value, _INFLIGHT)
    state = State.COMPLETED if pending is None else _PENDING[pending]
    if not bare or word not in _ACTION_WORDS or (layout == 1 and completion is not None):
        return None
    try:
        instant = InstantFile(requested, Action(word), state, completion)
        instant.file_name(layout)
    except InvalidArgumentError:
        return None
    for time in (requested, completion):
        if time is not None:
            _check_time(time, name)
    return instant


_PLAIN_TIME = re.compile(
    r"(?!0000)[0-9]{4}(?:0[1-9]|1[0-2])(?:0[1-9]|1[0-9]|2[0-8])(?:[01][0-9]|2[0-3])(?:[0-5][0-9]){2}(?:[0-9]{3,})?"
)
"""Times that are surely dates; the last days of a month are looked up."""

_RESERVED_YEAR = "0000"
"""Instants that stand for no moment: those of a bootstrap, and the first ones of a metadata table."""


def _check_time(time: str, name: str) -> None:
    if _PLAIN_TIME.fullmatch(time) or time.startswith(_RESERVED_YEAR):
        return
    try:
        instant_to_millis(time, "UTC")
    except InvalidArgumentError as error:
        raise CorruptError(
            f"the timeline has the file {name!r}, whose time {time!r} is no calendar date, so Hudi can't have made it; "
            "move it away",
            path=name,
        ) from error


_ACTION_WORDS = frozenset(action.value for action in Action)


def _check_layout(layout: int) -> None:
    if layout not in {1, 2}:
        raise NotSupportedError(f"timeline layout {layout} is not known: this release of pudi knows 1 and 2")


_FILE_ID = r"[a-zA-Z0-9-]+"
_TOKEN = r"[0-9]+-[0-9]+-[0-9]+"
_VERSION = r"0|[1-9][0-9]{0,9}"
# File groups of a record index by partition have the partition's path in their ids, of which only some characters are
# escaped (PartitionPathEncodeUtils.escapeFileName).
_BASE_FILE = re.compile(r"([a-zA-Z0-9-]+|record-index-[^._/]+)_([a-zA-Z0-9-]+)_([0-9]+)\.([a-zA-Z0-9]+)")
_LOG_FILE = re.compile(rf"\.([^._/]+)_([^./]*)\.(log|archive)\.({_VERSION})(?:_({_TOKEN})(\.cdc)?)?")
_NATIVE_LOG_FILE = re.compile(
    rf"{_FILE_ID}_[a-zA-Z0-9-]+_[0-9]{{14}}(?:[0-9]{{3}})?_[0-9]+\.[a-zA-Z0-9]+\.[a-zA-Z0-9]+"
)


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """Name of a base file (FSUtils.makeBaseFileName): `<file id>_<write token>_<instant>.<extension>`.

    Attributes:
        file_id: id of the file group.
        write_token: the task attempt that wrote it.
        instant: requested time of the instant that wrote it.
        extension: `parquet`, `orc`, `hfile` or `lance`, without the dot.
    """

    file_id: str
    write_token: str
    instant: str
    extension: str = "parquet"

    def __post_init__(self) -> None:
        if _BASE_FILE.fullmatch(self.name) is None:
            raise InvalidArgumentError(f"{self.name!r} can't name a base file")

    @property
    def name(self) -> str:
        """The file name."""
        return f"{self.file_id}_{self.write_token}_{self.instant}.{self.extension}"


@dataclass(frozen=True, slots=True)
class LogFileName:
    """Name of a log file (FSUtils.LOG_FILE_PATTERN): `.<file id>_<instant>.log.<version>[_<write token>[.cdc]]`.

    Attributes:
        file_id: id of the file group.
        instant: from table version 8 on the requested time of the delta commit that wrote the file; before, the
            instant of the file slice's base; empty in the names of archived timelines.
        version: 1, 2, … among the log files of one file id and instant.
        write_token: the task attempt that wrote it; None in old tables.
        extension: `log`, or `archive` in an archived timeline of layout 1.
        cdc: whether it holds change data (never part of a snapshot).
    """

    file_id: str
    instant: str
    version: int
    write_token: str | None = None
    extension: str = "log"
    cdc: bool = False

    def __post_init__(self) -> None:
        if "_" in self.file_id or _LOG_FILE.fullmatch(self.name) is None:  # the first one ends the id for readers
            raise InvalidArgumentError(f"{self.name!r} can't name a log file")

    @property
    def name(self) -> str:
        """The file name."""
        token = "" if self.write_token is None else f"_{self.write_token}"
        return f".{self.file_id}_{self.instant}.{self.extension}.{self.version}{token}{'.cdc' if self.cdc else ''}"

    @property
    def sort_key(self) -> tuple[str, int, str, bool]:
        """Order in which the log files of one slice are merged (HoodieLogFile.LogFileComparator); tokens as text."""
        return (self.instant, self.version, self.write_token or "", self.cdc)


CDC_SUFFIX = ".cdc"
"""Ends the names of log files that hold change data."""

_set = object.__setattr__


def parse_base_file(name: str) -> BaseFileName | None:
    """The parts of a base file's name, or None when `name` is none."""
    match = _BASE_FILE.fullmatch(name)
    if match is None:
        return None
    parsed = object.__new__(BaseFileName)  # checked already: a table may have a million of them
    file_id, write_token, instant, extension = match.groups()
    _set(parsed, "file_id", file_id)
    _set(parsed, "write_token", write_token)
    _set(parsed, "instant", instant)
    _set(parsed, "extension", extension)
    return parsed


def parse_log_file(name: str) -> LogFileName | None:
    """The parts of a log file's name, or None when `name` is none."""
    match = _LOG_FILE.fullmatch(name)
    if match is None:
        return None
    file_id, instant, extension, version, token, cdc = match.groups()
    return LogFileName(file_id, instant, int(version), token, extension, cdc is not None)


@lru_cache(maxsize=10_000)  # a writer lists the same folders several times
def parse_data_file(name: str) -> BaseFileName | LogFileName | None:
    """The parts of the name of a file in a partition folder, or None when it is no data file.

    Raises:
        NotSupportedError: a log file of a Hudi newer than 1.2; ignoring it would lose rows.
    """
    if name.startswith("."):
        return parse_log_file(name)
    base = parse_base_file(name)
    if base is None and _NATIVE_LOG_FILE.fullmatch(name):
        raise NotSupportedError(
            "log file of a later Hudi: this release of pudi reads those of 1.2 and before", path=name
        )
    return base


def group_file_prefixes(file_id: str) -> tuple[str, str]:
    """Return the prefixes of a file group's base files and of its log files."""
    return f"{file_id}_", f".{file_id}_"


def new_file_id(uuid: str, n: int) -> str:
    """Id of a new file group: the writing task's UUID and the number of the file that it writes (FSUtils)."""
    file_id = f"{uuid}-{n}"
    if re.fullmatch(_FILE_ID, file_id) is None:
        raise InvalidArgumentError(f"{file_id!r} can't be a file id: expected letters, digits and hyphens")
    return file_id


def new_bucket_file_id(uuid: str, bucket: int) -> str:
    """Id of a bucket's file group: the bucket in eight digits, and a UUID's other 28 (BucketIdentifier, FSUtils)."""
    return new_file_id(f"{bucket:08}{uuid[8:]}", 0)


def shared_bucket_file_id(bucket: int, number: int) -> str:
    """Id of a bucket's file group by non-blocking concurrency control (BucketIdentifier.newBucketFileIdForNBCC).

    Args:
        bucket: the bucket.
        number: which file group of it; others before it were replaced.
    """
    return new_file_id(f"{bucket:08}-0000-0000-0000-000000000000", number)


def is_shared_bucket(file_id: str) -> bool:
    """Return whether a file id is one of `shared_bucket_file_id`, which each partition may have."""
    return "-0000-0000-0000-000000000000" in file_id


def bucket_of_file_id(file_id: str) -> int | None:
    """The bucket that a file id names (BucketIdentifier.bucketIdFromFileId); None where it can't name one."""
    digits = file_id[:8]
    return int(digits) if len(digits) == 8 and digits.isascii() and digits.isdigit() else None


def write_token(partition_id: int, stage_id: int, attempt_id: int) -> str:
    """Name the task attempt that wrote a file (FSUtils.makeWriteToken) by any three non-negative integers."""
    if min(partition_id, stage_id, attempt_id) < 0:
        raise InvalidArgumentError(f"write token of {partition_id}, {stage_id}, {attempt_id}: none may be negative")
    return f"{partition_id}-{stage_id}-{attempt_id}"


def instant_token(instant: str, partition_id: int = 0, attempt_id: int = 0) -> str:
    """Name a task attempt by a write token that tells the writers of one instant from those of others.

    In layout 1 the log files of all writers have the same instant and version. Only the token distinguishes them, and a
    rollback must never delete another writer's file. So the token's stage, unused there, is derived from the instant.

    Args:
        instant: the writer's.
        partition_id: as of `write_token`.
        attempt_id: as of `write_token`.
    """
    return write_token(partition_id, zlib.crc32(instant.encode()) & 0x7FFFFFFF, attempt_id)


class IOType(str, Enum):
    """Kind of the marked file (IOType): a new base or log file, a new version of a base file, an append (v6)."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


_MARKER_SUFFIX = ".marker."


def file_path(partition: str, name: str) -> str:
    """Return the path of a file in a partition, relative to the table's root."""
    return f"{partition}/{name}" if partition else name


@dataclass(frozen=True, slots=True)
class MarkerName:
    """A marker: an empty file that is made before the data file it names (WriteMarkers).

    Attributes:
        partition: path of the partition, relative to the table's root; empty without partitions.
        file_name: name of the data file.
        io_type: what the data file is.
    """

    partition: str
    file_name: str
    io_type: IOType

    def __post_init__(self) -> None:
        parts = [*(self.partition.split("/") if self.partition else ()), self.file_name]
        if "/" in self.file_name or any(part in {"", ".", ".."} for part in parts):
            raise InvalidArgumentError(f"{'/'.join(parts)!r} can't be the path of a data file within the table")

    @property
    def path(self) -> str:
        """Path of the marker, relative to the marker folder of its instant."""
        return f"{self.data_path}{_MARKER_SUFFIX}{self.io_type.value}"

    @property
    def data_path(self) -> str:
        """Path of the data file, relative to the table's root."""
        return file_path(self.partition, self.file_name)


def parse_marker(path: str) -> MarkerName | None:
    """The marker at `path`, relative to its instant's marker folder, or None when it is no marker.

    Raises:
        CorruptError: the path would leave the table.
    """
    data_path, suffix, io_type = path.rpartition(_MARKER_SUFFIX)
    if not suffix or io_type not in _IO_TYPES:
        return None
    partition, _, file_name = data_path.rpartition("/")
    try:
        return MarkerName(partition, file_name, IOType(io_type))
    except InvalidArgumentError as error:
        raise CorruptError(f"a marker names {data_path!r}, which is no path within the table", path=path) from error


_IO_TYPES = frozenset(io_type.value for io_type in IOType)
