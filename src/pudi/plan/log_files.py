"""A merge-on-read table's log files as values: how they are written, what they are appended to, how they are merged."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from pudi.config import MergeMemory
from pudi.filegroup import FileSlice, LogScope
from pudi.format import IOType, Layout
from pudi.format.layout import rules_of
from pudi.merge import MergeRule
from pudi.merge.deletes import delete_columns
from pudi.record import KeyGenerator
from pudi.schema import RECORD_KEY


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options of log files; picklable.

    Attributes:
        layout: the timeline's layout, which decides about names: in 1 (table version 6) a log file bears the instant of
            its slice's base, in 2 that of the delta commit.
        avro: whether records are written as Avro, else as Parquet.
        hfile: whether they're written as HFiles.
        max_file_bytes: size from which on another file is begun (hoodie.logfile.max.size).
        max_block_bytes: bytes in memory of the records of one block (hoodie.logfile.data.block.max.size).
        small_files: how many small base files of a partition take inserts at most
            (hoodie.merge.small.file.group.candidates.limit).
        positions: whether blocks say where their records are in the base file, when that's known
            (hoodie.write.record.positions; from table version 8 on).
        partial: whether updates by predicate write changed columns only (pudi.update.partial; likewise).
    """

    layout: Layout = 2
    avro: bool = False
    hfile: bool = False
    max_file_bytes: int = 1 << 30
    max_block_bytes: int = 256 << 20
    small_files: int = 1
    positions: bool = False
    partial: bool = False

    @property
    def io_type(self) -> IOType:
        """The I/O type of log files' markers: which makes Hudi delete them, or take their blocks back."""
        return log_io_type(self.layout)


def log_io_type(layout: Layout) -> IOType:
    """The I/O type of log files' markers: which makes Hudi delete them, or, in layout 1, take their blocks back."""
    return IOType.APPEND if rules_of(layout).logs_name_their_slice else IOType.CREATE


@dataclass(frozen=True, slots=True)
class Append:
    """A new log file of a file group.

    Attributes:
        slice: the file group's latest slice; None for a new file group.
    """

    slice: FileSlice | None = None

    def instant(self, own: str, layout: Layout) -> str:
        """The instant in the log file's name, for a delta commit `own`.

        In layout 1 it's that of the slice's base, or of the compaction that is pending on the file group and will make
        the next one.
        """
        if rules_of(layout).logs_name_their_commit or self.slice is None:
            return own
        return self.slice.compacting or self.slice.instant

    def version(self, layout: Layout) -> int:
        """The version of the first log file written."""
        if rules_of(layout).logs_name_their_commit or self.slice is None:
            return 1
        base = self.instant("", layout)
        return 1 + max((log.name.version for log in self.slice.logs if log.instant == base), default=0)

    @property
    def base_file(self) -> str:
        """Return the name of the slice's base file; empty without one."""
        return "" if self.slice is None or self.slice.base is None else self.slice.base.name.name

    @property
    def logs(self) -> tuple[str, ...]:
        """Names of the slice's log files so far."""
        return () if self.slice is None else tuple(log.name.name for log in self.slice.logs)


@dataclass(frozen=True, slots=True)
class Merging:
    """The merge of a read's slices; picklable.

    Attributes:
        rule: which version wins.
        scope: the instants whose log blocks count.
        keys: makes record keys of columns, where files have no meta fields; None where they have.
        memory: how much of it merging one slice may take.
        by_position: whether log records may be matched with base rows by the positions that blocks say.
    """

    rule: MergeRule
    scope: LogScope
    keys: KeyGenerator | None = None
    memory: MergeMemory = field(default_factory=MergeMemory)
    by_position: bool = False

    def columns(self, schema: pa.Schema) -> set[str]:
        """The columns that merging looks at."""
        if self.rule.merger is not None:
            return set(schema.names)
        wanted = {RECORD_KEY} if self.keys is None else set(self.keys.columns)
        if self.rule.compares:
            wanted |= set(self.rule.ordering_columns)
        return wanted | set(delete_columns(schema.empty_table(), self.rule.delete_marker))
