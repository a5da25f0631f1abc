"""Statements as values: what the grammar makes of a text, and the runner runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

TIME_ZONE = "spark.sql.session.timeZone"
"""The setting of the session's time zone, which SET TIME ZONE sets."""


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the statement as the user wrote it: a query, a condition, a value.

    Attributes:
        text: the piece.
        at: where it begins in the statement.
    """

    text: str
    at: int

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TableName:
    """A table by name, or by path: hudi.`/data/trips` and pudi.`/data/trips`.

    Attributes:
        parts: the names, from the database to the table.
        at: where it stands in the statement.
    """

    parts: tuple[str, ...]
    at: int

    @property
    def path(self) -> str | None:
        """The path that it is; None for a name."""
        by_path = len(self.parts) == 2 and self.parts[0].lower() in {"hudi", "pudi"}
        return self.parts[1] if by_path else None

    def __str__(self) -> str:
        return ".".join(self.parts)


class Statement:
    """A statement."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """A query, or a statement that is none of these: the engine runs it over the tables that it names."""

    text: Text


@dataclass(frozen=True, slots=True)
class SetOption(Statement):
    """`SET key = value`; without a value it shows the option, without a key all."""

    key: str | None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Use(Statement):
    """`USE database`; also `CREATE DATABASE`, by which a database isn't chosen.

    Attributes:
        database: its name; None where it's only created.
    """

    database: str | None


@dataclass(frozen=True, slots=True)
class ResetOption(Statement):
    """`RESET key`; without a key all options."""

    key: str | None


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """A column of CREATE TABLE or ADD COLUMNS.

    Attributes:
        name: its name.
        type: Spark's name of its type.
        at: where it stands in the statement.
        nullable: whether it takes nulls.
        after: the column that it is to follow; None for the end.
        comment: what the catalog says about it; None for nothing.
    """

    name: str
    type: str
    at: int
    nullable: bool = True
    after: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """`CREATE TABLE`; with a query, of its rows; with `like`, after another table."""

    table: TableName
    columns: tuple[ColumnDef, ...] = ()
    exists_ok: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    partitioned_by: tuple[ColumnDef, ...] = ()
    location: str | None = None
    query: Text | None = None
    comment: str | None = None
    like: TableName | None = None


@dataclass(frozen=True, slots=True)
class DropTable(Statement):
    """`DROP TABLE`."""

    table: TableName
    exists_ok: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """`CREATE TEMPORARY VIEW name AS query`, `CACHE TABLE name AS query`.

    Attributes:
        name: the view's name.
        query: the query.
        columns: the names of its columns; none for those of the query.
        replaces: whether it takes the place of a view that is there.
        is_global: whether other sessions of the application see it.
        cached: whether Spark keeps its rows.
    """

    name: str
    query: Text
    columns: tuple[str, ...] = ()
    replaces: bool = False
    is_global: bool = False
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Refresh(Statement):
    """`REFRESH TABLE` and `ANALYZE TABLE`: every statement reads the timeline, and the table holds its statistics."""

    table: TableName


@dataclass(frozen=True, slots=True)
class Attach(Statement):
    """`ATTACH 'address' AS name`; without an address, `DETACH name`.

    Attributes:
        name: the catalog's name in the session.
        at: where the address, or the name, stands in the statement.
        address: its address; None to know it no more.
    """

    name: str
    at: int
    address: str | None = None


@dataclass(frozen=True, slots=True)
class Foreign(Statement):
    """A statement that Hudi doesn't have: pudi refuses it for its tables, the engine may run it for others."""

    table: TableName
    what: str
    instead: str


Partition = tuple[tuple[str, Text | None], ...]
"""The columns of `PARTITION (day = '2026-01-01', hour)` and their values; None for a column without one."""


@dataclass(frozen=True, slots=True)
class Truncate(Statement):
    """`TRUNCATE TABLE`; of a partition, if one is named."""

    table: TableName
    partition: Partition = ()


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """`INSERT INTO` and `INSERT OVERWRITE`; columns meet by place, or BY NAME."""

    table: TableName
    query: Text
    columns: tuple[str, ...] = ()
    partition: Partition = ()
    overwrite: bool = False
    by_name: bool = False


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """`UPDATE`."""

    table: TableName
    values: tuple[tuple[str, Text], ...]
    where: Text | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """`DELETE FROM`."""

    table: TableName
    where: Text | None = None
    alias: str | None = None


class When(Enum):
    """The rows that a clause of MERGE INTO is for."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


@dataclass(frozen=True, slots=True)
class MergeAction:
    """A clause of MERGE INTO.

    Attributes:
        when: its rows.
        action: `update`, `delete` or `insert`.
        condition: which of them.
        values: the new values by column; None for `*`.
    """

    when: When
    action: str
    at: int
    condition: Text | None = None
    values: tuple[tuple[str, Text], ...] | None = None


@dataclass(frozen=True, slots=True)
class Merge(Statement):
    """`MERGE INTO`; the source is a table's name or a query in parentheses."""

    table: TableName
    source: Text
    on: Text
    clauses: tuple[MergeAction, ...]
    alias: str | None = None
    source_alias: str | None = None


class Change(Enum):
    """Change that ALTER TABLE makes."""

    ADD_COLUMNS = "add columns"
    RENAME_COLUMN = "rename column"
    DROP_COLUMNS = "drop columns"
    MOVE_COLUMN = "move column"
    CHANGE_TYPE = "change type"
    COMMENT = "comment"
    SET_PROPERTIES = "set properties"
    UNSET_PROPERTIES = "unset properties"
    RENAME = "rename"
    ADD_PARTITION = "add partition"
    DROP_PARTITION = "drop partition"
    RECOVER_PARTITIONS = "recover partitions"


@dataclass(frozen=True, slots=True)
class Alter(Statement):
    """`ALTER TABLE`.

    Attributes:
        change: what of it.
        columns: the columns that are added or changed.
        names: the columns that are dropped, the old and the new name, a column and the one that it is to follow, the
            properties that are unset.
        properties: what is set.
        partitions: the partitions that are added or dropped.
        exists_ok: whether it's no error if what is added is there, or what is dropped isn't.
    """

    table: TableName
    change: Change
    columns: tuple[ColumnDef, ...] = ()
    names: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[Partition, ...] = ()
    exists_ok: bool = False


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """`SHOW` of `tables`, `partitions`, `tblproperties`, `create table`, `indexes` or `columns`, and `DESCRIBE`."""

    what: str
    table: TableName | None = None
    partition: Partition = ()
    like: str | None = None
    database: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateIndex(Statement):
    """`CREATE INDEX`."""

    name: str
    table: TableName
    kind: str
    columns: tuple[str, ...]
    options: Mapping[str, str]
    exists_ok: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex(Statement):
    """`DROP INDEX`."""

    name: str
    table: TableName
    exists_ok: bool = False


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of CALL; its name is empty where it's given by its place."""

    name: str
    value: object
    at: int


@dataclass(frozen=True, slots=True)
class Call(Statement):
    """`CALL`."""

    procedure: str
    arguments: tuple[Argument, ...]
    at: int
