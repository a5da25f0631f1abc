"""Upper limits for the sizes of small files: larger ones are refused before they are read."""

from __future__ import annotations

from enum import IntEnum


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
