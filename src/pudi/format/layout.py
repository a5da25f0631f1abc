"""Fixed names of a table's folders and files, relative to the table's root.

Source: HoodieTableMetaClient.
"""

from __future__ import annotations

import re
from typing import Final

from pudi.format.names import IOType, MarkerName

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
    return f"{partition}/{PARTITION_METADATA}" if partition else PARTITION_METADATA


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
