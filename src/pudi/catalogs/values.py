"""Tables and partitions as a catalog holds them, in the words of Hive's metastore, which Glue shares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from pudi.config.arguments import text_given
from pudi.errors import InvalidArgumentError

Values: TypeAlias = tuple[str, ...]
"""The text of a partition's value in each partition column."""

EXTERNAL, MANAGED = "EXTERNAL_TABLE", "MANAGED_TABLE"
"""Kinds of tables: dropping a managed one deletes its files."""

PROVIDER: Final = "spark.sql.sources.provider"
"""Property that says the format of a table to Spark."""
COMMENT: Final = "comment"
"""Property with a table's comment, as Hive has it."""
_INPUT_FORMATS: Final = "org.apache.hudi."
_S3: Final = re.compile(r"^s3[an]:")


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """The name of a table in a catalog.

    Attributes:
        database: its database.
        table: its name there.
    """

    database: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Return the name that `database.table` says; `table` alone is one of the database `default`.

        Raises:
            InvalidArgumentError: it's neither.
        """
        database, dot, table = text_given(text, "the name of a table").rpartition(".")
        if not table or (dot and not database) or any(char in text for char in "/:") or "." in database:
            raise InvalidArgumentError(f"{text!r} names no table of a catalog: write database.table")
        return cls(database or "default", table)

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column.

    Attributes:
        name: its name; metastores store it in lower case.
        type: its type in Hive's notation: `map<string,array<bigint>>`.
        comment: its comment; empty for none.
    """

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """Formats by which engines of Hive's family read the files of a table.

    Attributes:
        input_format: Java class that reads.
        output_format: Java class that writes.
        serde: Java class that makes rows of what was read.
        serde_properties: its settings.
    """

    input_format: str
    output_format: str
    serde: str
    serde_properties: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as it's registered, or is to be.

    Attributes:
        name: database and name.
        location: URL of its root.
        columns: all columns but those of the partitions.
        partition_columns: the columns that partitions have values of; empty for none.
        format: how its files are read.
        properties: the table's properties.
        kind: `EXTERNAL_TABLE`, `MANAGED_TABLE`, or what else a catalog has (`VIRTUAL_VIEW`).
        owner: who made it.
        entry: the entry that the catalog gave, so that a change keeps what these attributes don't show.
    """

    name: TableName
    location: str
    columns: tuple[CatalogColumn, ...]
    partition_columns: tuple[CatalogColumn, ...] = ()
    format: TableFormat = TableFormat("", "", "")
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    kind: str = EXTERNAL
    owner: str = ""
    entry: Any = field(default=None, repr=False, compare=False)

    def with_properties(self, more: Mapping[str, str]) -> CatalogTable:
        """Return the table with some properties set."""
        return replace(self, properties={**self.properties, **more})


@dataclass(frozen=True, slots=True)
class CatalogPartition:
    """A partition as it's registered, or is to be. Its columns and format are the table's.

    Attributes:
        values: its value in each partition column.
        location: URL of its folder.
    """

    values: Values
    location: str


def with_s3_scheme(location: str) -> str:
    """Return a location in S3 with the scheme `s3`, whichever of its schemes it has; any other as it is."""
    return _S3.sub("s3:", location)


def is_hudi(table: CatalogTable) -> bool:
    """Return whether a registered table is a Hudi table."""
    reads = table.format.input_format.startswith(_INPUT_FORMATS)
    return (reads or table.properties.get(PROVIDER, "").lower() == "hudi") and "VIEW" not in table.kind
