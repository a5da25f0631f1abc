"""The change data of a range of commits: which files of which file groups say what each commit changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

import pyarrow as pa

from pudi.filegroup import BaseFile, FileSlice, LogFile
from pudi.format import FileGroupId
from pudi.format.cdc import AFTER, BEFORE, OP, TS_MS, LoggingMode
from pudi.plan.log_files import Merging
from pudi.record import KeyGenerator
from pudi.schema import without_meta_fields
from pudi.schema.internal import SchemaHistory
from pudi.timeline import TimelinePlace

if TYPE_CHECKING:  # a write task needs its changes, and no expressions
    from pudi.expr import Expr


class ChangeCase(str, Enum):
    """Way to find the changes of one commit to one file group (HoodieCDCInferenceCase).

    AS_IS: a CDC file says them. BASE_FILE_INSERT: every record of a new base file is an insert. BASE_FILE_DELETE: every
    record of the base file before is a delete. LOG_FILE: records of log files are compared with the file slice before.
    REPLACE_COMMIT: every record of a replaced file group is a delete. COMPARED: two versions of a base file are
    compared, where nothing was logged; Hudi has no such case.
    """

    AS_IS = "AS_IS"
    BASE_FILE_INSERT = "BASE_FILE_INSERT"
    BASE_FILE_DELETE = "BASE_FILE_DELETE"
    LOG_FILE = "LOG_FILE"
    REPLACE_COMMIT = "REPLACE_COMMIT"
    COMPARED = "COMPARED"


_SHARE_BYTES = 4 << 20
"""Bytes of CDC files worth a reader of their own: each one reads the file, and decodes its share of the records."""


@dataclass(frozen=True, slots=True)
class ChangeSplit:
    """Files that hold the changes of one commit to one file group (HoodieCDCFileSplit); picklable.

    Attributes:
        instant: requested time of the commit.
        case: how to read it.
        partition: partition path.
        file_id: the file group.
        before: the file slice that the commit changed, as far as it's needed.
        after: the base file that the commit wrote, as far as it's needed.
        logs: the log files that the commit wrote (LOG_FILE).
        cdc: the CDC files that the commit wrote (AS_IS).
        completed: the instants whose log blocks count in `before`.
        share: the first and the last of the records in its CDC files that are read, as fractions of their number.
    """

    instant: str
    case: ChangeCase
    partition: str
    file_id: str
    before: FileSlice | None = None
    after: BaseFile | None = None
    logs: tuple[LogFile, ...] = ()
    cdc: tuple[LogFile, ...] = ()
    completed: frozenset[str] = field(default=frozenset(), repr=False)
    share: tuple[float, float] = (0.0, 1.0)

    @property
    def group(self) -> FileGroupId:
        """The file group."""
        return FileGroupId(self.partition, self.file_id)

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        bases = (0 if self.before is None else self.before.size) + (0 if self.after is None else self.after.size)
        return bases + sum(log.size for log in (*self.logs, *self.cdc))

    @property
    def count(self) -> int:
        """The number of its files."""
        before = 0 if self.before is None else len(self.before.logs) + (self.before.base is not None)
        return before + len(self.logs) + len(self.cdc) + (self.after is not None)


@dataclass(frozen=True, slots=True)
class ChangeLogging:
    """Options by which a write logs its changes to base files; picklable.

    Attributes:
        mode: what CDC files hold.
        avro_schema: Avro schema of their records, JSON text.
        max_block_bytes: bytes in memory of the changes of one block.
    """

    mode: LoggingMode
    avro_schema: str
    max_block_bytes: int = 256 << 20


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """A read of change data: its splits, and the form of its rows; picklable.

    Attributes:
        table: location of the table.
        schema: every column that the rows of the table have, meta fields first where it has them.
        mode: what its CDC files hold.
        typed: whether images are structs; else JSON texts.
        meta_fields: whether JSON texts of records from data files have the meta fields.
        columns: the columns that come back, in order.
        where: bound predicate on the columns; None keeps all rows.
        merging: how log files are merged; in a copy-on-write table with an empty scope.
        history: the schemas of older files, in a table with schema on read.
        keys: makes record keys of columns, where files have no meta fields; None where they have.
        logged: whether the table logs its changes.
        commits: the number of commits in the range.
        splits: the files to read.
        timeline: as of `ReadPlan`.
    """

    table: str
    schema: pa.Schema
    mode: LoggingMode
    typed: bool
    meta_fields: bool
    columns: tuple[str, ...]
    where: Expr | None
    merging: Merging
    history: SchemaHistory | None
    keys: KeyGenerator | None = None
    logged: bool = True
    commits: int = 0
    splits: tuple[ChangeSplit, ...] = ()
    timeline: TimelinePlace | None = None

    def divided(self, readers: int) -> tuple[tuple[ChangeSplit, ...], ...]:
        """Return the splits in parts of about the same size, one for each reader; large splits are divided.

        Only CDC files that say all are divided: another split needs base files too, which each reader would read.

        Args:
            readers: the number of readers that work beside each other.

        Returns:
            At most as many parts, each with a split at least. The order is that of `splits`.
        """
        part = max(1, sum(split.size for split in self.splits)) / readers
        step = part * ceil(_SHARE_BYTES / part)
        parts: list[list[ChangeSplit]] = [[] for _ in range(readers)]
        begin = 0
        for split in self.splits:
            end = begin + split.size
            cuts: list[float] = [begin, end]
            if split.case is ChangeCase.AS_IS and self.mode is LoggingMode.DATA_BEFORE_AFTER:
                inner = (step * number for number in range(ceil(begin / step), ceil(end / step)))
                cuts[1:1] = [cut for cut in inner if begin + _SHARE_BYTES <= cut <= end - _SHARE_BYTES]
            for first, last in pairwise(cuts):
                share = ((first - begin) / split.size, (last - begin) / split.size) if len(cuts) > 2 else split.share
                at = int((first + last) / 2 / part)
                parts[min(at, readers - 1)].append(replace(split, share=share))
            begin = end
        return tuple(tuple(each) for each in parts if each)

    @property
    def whole_schema(self) -> pa.Schema:
        """The columns of change data (FULL_CDC_SPARK_SCHEMA)."""
        return change_schema(self.schema, typed=self.typed)

    @property
    def output_schema(self) -> pa.Schema:
        """Schema of what comes back."""
        return pa.schema([self.whole_schema.field(name) for name in self.columns])


def change_schema(schema: pa.Schema, *, typed: bool) -> pa.Schema:
    """Return the columns of change data.

    Args:
        schema: the table's columns.
        typed: whether images are structs of the table's columns without meta fields; else texts.
    """
    data = pa.struct([field.with_nullable(True) for field in without_meta_fields(schema)])
    image = data if typed else pa.string()
    return pa.schema([(OP, pa.string()), (TS_MS, pa.string()), (BEFORE, image), (AFTER, image)])
