"""Layout of a table: its folders and files, upper limits of their sizes, and the rules of timeline layouts.

The encoding of instants and archives differs by timeline layout too: their codecs, and `pudi.timeline`, know that by
the layout itself.

Source: HoodieTableMetaClient, TimelineLayoutVersion.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pudi.format.names import IOType, Layout, MarkerName, file_path

HOODIE_DIR: Final = ".hoodie"
"""Everything about the table that is not data."""
PROPERTIES: Final = f"{HOODIE_DIR}/hoodie.properties"
"""The table's configuration."""
PROPERTIES_BACKUP: Final = f"{HOODIE_DIR}/hoodie.properties.backup"
"""The configuration as it was, while it is being changed."""
TIMELINE_FOLDER: Final = "timeline"
"""Default of `hoodie.timeline.path`, relative to HOODIE_DIR."""
TIMELINE_DIR: Final = f"{HOODIE_DIR}/{TIMELINE_FOLDER}"
"""Active timeline of layout 2, where `hoodie.timeline.path` is the default; that of layout 1 is HOODIE_DIR."""
HISTORY_FOLDER: Final = "history"
"""Default of `hoodie.timeline.history.path`, relative to the timeline's folder."""
ARCHIVE_FOLDER: Final = "archived"
"""Default of `hoodie.archivelog.folder`, the archived timeline of layout 1, relative to HOODIE_DIR."""
ARCHIVE_FILE_ID: Final = "commits"
"""File id in the names of archive files of layout 1, which are named as log files are."""
MERGE_ARCHIVE_PLAN: Final = "mergeArchivePlan"
"""Archive of layout 1: names the target file while small files are being merged."""
HISTORY_VERSION: Final = "_version_"
"""Archived timeline of layout 2: holds the number of the newest manifest (LSMTimeline)."""
MANIFEST: Final = f"{HOODIE_DIR}/manifest/latest-snapshot.csv"
"""Names of the latest base files, for engines without a metastore (ManifestFileWriter)."""
ABSOLUTE_MANIFEST: Final = f"{HOODIE_DIR}/absolute-path-manifest/latest-snapshot.csv"
"""Their whole locations."""
METADATA_DIR: Final = f"{HOODIE_DIR}/metadata"
"""The metadata table, a Hudi table itself."""
TEMP_DIR: Final = f"{HOODIE_DIR}/.temp"
"""A folder for each write under way: its markers."""
_STAGED = ".staged"
UPGRADE: Final = f"{HOODIE_DIR}/upgrade.json"
"""An upgrade or downgrade of the table's version that is under way."""
MOVED: Final = "moved"
"""Marks the folder of a timeline that is moving, or has moved, to the other layout."""
HEARTBEAT_DIR: Final = f"{HOODIE_DIR}/.heartbeat"
"""A file for each writer that says it is alive."""
SERVICE_FAILURES_DIR: Final = f"{HOODIE_DIR}/.pudi/failures"
"""A file for each table service that failed at its last attempt: pudi's own, which Hudi passes over."""
SET_ASIDE_DIR: Final = f"{HOODIE_DIR}/.pudi/set_aside"
"""A file for each plan of a table service whose runs failed: pudi's own."""
_PLAN_RUNS_DIR = f"{HOODIE_DIR}/.pudi/runs"
"""A file for each plan of a table service that is being run, with the id of its newest run: pudi's own."""
LOCKS_DIR: Final = f"{HOODIE_DIR}/.locks"
"""Locks kept in the storage."""
TABLE_LOCK: Final = f"{LOCKS_DIR}/table_lock.json"
"""Lock of StorageBasedLockProvider."""
LOCK_AUDIT_SWITCH: Final = f"{LOCKS_DIR}/audit_enabled.json"
"""Says whether holders of that lock write audit files."""
LOCK_AUDIT_DIR: Final = f"{LOCKS_DIR}/audit"
"""Their audit files."""
SCHEMA_DIR: Final = f"{HOODIE_DIR}/.schema"
"""History of the schema, for schema on read."""
INDEX_DEFS_DIR: Final = f"{HOODIE_DIR}/.index_defs"
"""Definitions of indexes."""
INDEX_DEFS: Final = f"{INDEX_DEFS_DIR}/index.json"
"""Default of `hoodie.table.index.defs.path`, which is relative to the table's root."""
AUX_DIR: Final = f"{HOODIE_DIR}/.aux"
"""Bootstrap indexes."""
BUCKET_INDEX_DIR: Final = f"{HOODIE_DIR}/.bucket_index"
"""State of bucket indexes."""
CONSISTENT_HASHING_DIR: Final = f"{BUCKET_INDEX_DIR}/consistent_hashing_metadata"
"""State of the consistent bucket index, a folder for each partition."""
PARTITION_METADATA: Final = ".hoodie_partition_metadata"
"""The file that makes a folder a partition; followed by the base files' extension in some tables."""
DELTA_LOG_DIR: Final = "_delta_log"
"""In the root of a Delta table: its log."""
ICEBERG_METADATA_DIR: Final = "metadata"
"""In the root of an Iceberg table: its metadata."""
ICEBERG_METADATA_SUFFIX: Final = ".metadata.json"
"""End of the names of files in there that describe the whole table."""
CLAIMS_DIR: Final = f"{TEMP_DIR}/claims"
"""A file for each write that has claimed file groups: pudi's own, which Hudi passes over."""
MARKERS_TYPE: Final = "MARKERS.type"
"""Marker folder: the kind of its markers, DIRECT or TIMELINE_SERVER_BASED (MarkerUtils)."""
MARKERS_PREFIX: Final = "MARKERS"
"""Marker folder: prefix of the files that list markers, one path per line."""


def marker_dir(instant: str) -> str:
    """Folder of the markers of the write requested at `instant`."""
    return f"{TEMP_DIR}/{instant}"


def staging_dir(instant: str) -> str:
    """Folder of what tasks of the write requested at `instant` leave for each other, among its markers."""
    return f"{marker_dir(instant)}/{_STAGED}"


def is_staged(name: str) -> bool:
    """Return whether a path below an instant's marker folder is a staged file rather than a marker."""
    return name.startswith(f"{_STAGED}/")


def marker_path(instant: str, partition: str, file_name: str, io_type: IOType) -> str:
    """Path of a marker, relative to the table's root.

    Args:
        instant: requested time of the write.
        partition: partition of the data file; empty without partitions.
        file_name: name of the data file.
        io_type: what the data file is.

    Raises:
        InvalidArgumentError: partition or file name would leave the table.
    """
    return f"{marker_dir(instant)}/{MarkerName(partition, file_name, io_type).path}"


def heartbeat_path(instant: str) -> str:
    """Path of the heartbeat of the write requested at `instant`, relative to the table's root."""
    return f"{HEARTBEAT_DIR}/{instant}"


def partition_metadata_path(partition: str) -> str:
    """Path of the file that makes a folder a partition, relative to the table's root."""
    return file_path(partition, PARTITION_METADATA)


def service_failure_path(service: str) -> str:
    """Path of the note that a table service failed, relative to the table's root."""
    return f"{SERVICE_FAILURES_DIR}/{service}"


def set_aside_path(instant: str) -> str:
    """Path of the note that runs of a plan failed, relative to the table's root."""
    return f"{SET_ASIDE_DIR}/{instant}"


def plan_run_path(instant: str) -> str:
    """Path of the note which run of a plan is the newest, relative to the table's root."""
    return f"{_PLAN_RUNS_DIR}/{instant}"


def history_manifest(version: int) -> str:
    """Name of a manifest in the archived timeline of layout 2."""
    return f"{_MANIFEST_PREFIX}{version}"


def manifest_version(name: str) -> int | None:
    """The version that a manifest's name holds; None for the name of anything else."""
    version = name.removeprefix(_MANIFEST_PREFIX)
    return int(version) if version != name and version.isascii() and version.isdigit() else None


def history_range(name: str) -> tuple[str, str] | None:
    """Requested times of the first and the last instant in a file of the archived timeline of layout 2, by its name.

    None for the name of anything else.
    """
    match = _HISTORY_FILE.fullmatch(name)
    return None if match is None else (match[1], match[2])


def history_level(name: str) -> int | None:
    """Return the compaction level of a file of layout 2's archived timeline; None as `history_range`."""
    match = _HISTORY_FILE.fullmatch(name)
    return None if match is None else int(match[3])


def history_file(first: str, last: str, level: int) -> str:
    """Name of a file in the archived timeline of layout 2; see `history_range` and `history_level`."""
    return f"{first}_{last}_{level}.parquet"


def describes_table(name: str) -> bool:
    """Return whether a file of this name may make a folder the root of a table of Delta or Iceberg."""
    return name.endswith(ICEBERG_METADATA_SUFFIX) or _DELTA_FILE.fullmatch(name) is not None


def nested_root(path: str) -> str | None:
    """Return the folder that is the root of another table, below this table's root; None without one.

    Args:
        path: path of a file in the other table's metadata, relative to this table's root; of Hudi's metadata also a
            folder, with a slash at its end.
    """
    match = _NESTED.match(path)
    return None if match is None or path.startswith(f"{HOODIE_DIR}/") else match[1]


_DELTA_FILE = re.compile(r"[0-9]{20}\..+|_last_checkpoint", re.DOTALL)
_NESTED = re.compile(
    rf"(.+?)/(?:{re.escape(HOODIE_DIR)}/|{DELTA_LOG_DIR}/(?:{_DELTA_FILE.pattern})$"
    rf"|{ICEBERG_METADATA_DIR}/[^/]+{re.escape(ICEBERG_METADATA_SUFFIX)}$)",
    re.DOTALL,
)
_MANIFEST_PREFIX = "manifest_"
_HISTORY_FILE = re.compile(r"([0-9]+)_([0-9]+)_([0-9])\.parquet")


class MaxBytes(IntEnum):
    """Bytes that a file of each kind has at most.

    These files are read into memory whole, and a table may be hostile or damaged. The bounds lie far above what a
    writer can have meant, so that no table in use is refused.
    """

    PROPERTIES = 16 << 20
    """`hoodie.properties`, its backup, and the metadata of a partition: text of a few kilobytes."""

    INSTANT = 1 << 30
    """A file of the timeline: plans and metadata. Of each file written, a commit says 300 bytes in Avro and 1,300 in
    JSON, so this is enough for a commit of 3.5 million files, or 800,000 on a timeline of layout 1."""

    ARCHIVE_LOG = 2 << 30
    """An archive file of layout 1: Hudi begins another one after 1 GiB (hoodie.logfile.max.size) and one block more."""

    MANIFEST = 64 << 20
    """A manifest of the archived timeline: about 100 bytes for each file of the archive."""

    MARKERS = 1 << 30
    """A file with a list of markers: a line of about 150 bytes for each file of a write, divided among 20 files."""

    NOTE = 1 << 20
    """A lock file or a heartbeat. Hudi's lock file names the holder, with a stack of calls."""

    SCHEMAS = 1 << 30
    """A file of the schema history (`.hoodie/.schema`), which repeats all schemas of the table's history."""

    DEFINITIONS = 64 << 20
    """The definitions of the table's indexes (`.hoodie/.index_defs/index.json`)."""

    HASHING = 256 << 20
    """A partition's hashing metadata: about 110 bytes for each bucket, enough for 2 million."""


@dataclass(frozen=True, slots=True)
class TimelineRules:
    """The rules of one layout: 1 below table version 8, 2 from there on.

    Attributes:
        layout: the layout.
    """

    layout: Layout

    @property
    def logs_name_their_commit(self) -> bool:
        """Whether the name of a log file contains the instant that wrote it.

        A log file then belongs to the slice that is the latest when the instant completes, is written by it alone, and
        is deleted when the instant is rolled back. In layout 1 the name holds the instant of the slice's base, several
        instants may write to one file, and a rollback adds a command block.
        """
        return self.layout == 2

    @property
    def logs_name_their_slice(self) -> bool:
        """Whether the name of a log file contains the instant of its slice's base file instead."""
        return not self.logs_name_their_commit

    @property
    def has_completion_times(self) -> bool:
        """Whether instants have completion times; in layout 1 only the requested time is reliable."""
        return self.layout == 2

    @property
    def names_repeat(self) -> bool:
        """Whether instants of a recreated metadata table may have the names of earlier ones."""
        return not self.has_completion_times

    @property
    def services_have_suffixes(self) -> bool:
        """Whether a service of a metadata table takes the newest deltacommit's time with a suffix of digits."""
        return self.layout == 1

    @property
    def has_record_positions(self) -> bool:
        """Whether log blocks may contain record positions and partial records."""
        return self.layout == 2

    @property
    def default_history(self) -> str:
        """Default of the folder of archived instants, relative to the timeline's."""
        return ARCHIVE_FOLDER if self.layout == 1 else HISTORY_FOLDER

    def folder(self, timeline_path: str) -> str:
        """Return the folder of the active timeline, relative to the table's root.

        Args:
            timeline_path: value of `hoodie.timeline.path`.
        """
        return HOODIE_DIR if self.layout == 1 else f"{HOODIE_DIR}/{timeline_path}"

    def history(self, timeline_path: str, archive_path: str, history_path: str) -> str:
        """Return the folder of archived instants, relative to the table's root.

        Args:
            timeline_path: value of `hoodie.timeline.path`.
            archive_path: value of `hoodie.archivelog.folder`, which layout 1 uses; empty for the timeline's own folder.
            history_path: value of `hoodie.timeline.history.path`.
        """
        below = archive_path if self.layout == 1 else history_path
        return f"{self.folder(timeline_path)}/{below}" if below else self.folder(timeline_path)


_RULES = {layout: TimelineRules(layout) for layout in (1, 2)}


def rules_of(layout: Layout) -> TimelineRules:
    """Return the rules of a layout."""
    return _RULES[layout]
