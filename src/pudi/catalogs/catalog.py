"""Catalogs as pudi asks them: the protocol, the tables and partitions that they hold, and the result of a sync.

Tables and partitions are in the words of Hive's metastore, which Glue shares.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from pudi.config.arguments import text_given
from pudi.context import Context
from pudi.errors import InvalidArgumentError, PudiError, UnavailableError

if TYPE_CHECKING:
    from typing_extensions import Self

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
        database: its database; one of several levels as `a.b.c`, which only some catalogs have.
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
        database, _, table = text_given(text, "the name of a table").rpartition(".")
        if not all(text.split(".")) or any(char in text for char in "/:"):
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


@dataclass(frozen=True, slots=True)
class SyncedTable:
    """Result of a sync for one table of a catalog.

    Attributes:
        name: database and name.
        created: whether it was registered for the first time, or anew.
        columns_changed: whether its columns changed.
        properties_changed: whether other properties than the times of the sync changed.
        added: number of partitions that were added.
        moved: number of partitions that were given another location.
        dropped: number of partitions that were dropped.
    """

    name: str
    created: bool = False
    columns_changed: bool = False
    properties_changed: bool = False
    added: int = 0
    moved: int = 0
    dropped: int = 0

    @property
    def is_changed(self) -> bool:
        """Whether anything but the times of the sync changed."""
        return self.created or self.columns_changed or self.properties_changed or self.partitions_changed

    @property
    def partitions_changed(self) -> bool:
        """Whether partitions changed."""
        return bool(self.added or self.moved or self.dropped)

    def __str__(self) -> str:
        """Format as a few words."""
        said = ["created"] if self.created else []
        said += ["columns changed"] if self.columns_changed and not self.created else []
        said += ["properties changed"] if self.properties_changed and not self.created else []
        counts = {"added": self.added, "moved": self.moved, "dropped": self.dropped}
        said += [f"{count:,} partition{'' if count == 1 else 's'} {what}" for what, count in counts.items() if count]
        return f"{self.name}: {', '.join(said) or 'nothing to change'}"


@dataclass(frozen=True, slots=True)
class SyncResult:
    """A completed catalog sync.

    Attributes:
        catalog: address of the catalog.
        tables: the tables that stand for the Hudi table there.
        instant: requested time of the newest commit that they show; None before the first.
        complete: whether all partitions were compared, not only those that changed since the last sync.
        duration: seconds.
    """

    catalog: str
    tables: tuple[SyncedTable, ...]
    instant: str | None
    complete: bool
    duration: float

    def __str__(self) -> str:
        """Format as one line."""
        return f"{self.catalog}: {'; '.join(map(str, self.tables)) or 'written'} ({self.duration:.2f} s)"


class Catalog(ABC):
    """A catalog, in which a table is found by its name. Its methods may be called from several threads.

    Whatever number of partitions a method gets, it sends them in batches that the catalog takes. A batch that was sent
    may stay if a later one fails: each call can be repeated, and then completes the work.

    The errors of all methods name the catalog and the table:
    `UnavailableError` if the catalog doesn't answer, throttles, or fails, after a few attempts;
    `RefusedError` if it denies the request, for lack of rights or for a change that it doesn't allow;
    `NotFoundError` if a database or table is missing;
    `TableExistsError` if a table that is to be created is there already.
    """

    @property
    @abstractmethod
    def address(self) -> str:
        """The address of the catalog, as users write it: `hive://host:9083`."""

    @property
    def has_partitions(self) -> bool:
        """Whether entries have columns and partitions, and can be altered; without them a table is one plain entry.

        A sync registers such an entry with its location alone, and leaves it as it is from then on.
        """
        return True

    @property
    def has_nested_databases(self) -> bool:
        """Whether a database may have several levels: `a.b.c`."""
        return False

    @abstractmethod
    def has_database(self, name: str) -> bool:
        """Return whether there is a database of that name."""

    @abstractmethod
    def create_database(self, name: str) -> None:
        """Create a database; one that is there stays as it is."""

    @abstractmethod
    def table_names(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted."""

    @abstractmethod
    def tables(self, database: str, names: Sequence[str]) -> dict[str, CatalogTable]:
        """Return some tables by the names that were asked for, in one request; missing ones are left out."""

    def check_name(self, name: TableName) -> None:
        """Check that a table may have a name here.

        Raises:
            InvalidArgumentError: its database has several levels, and those of this catalog have one.
        """
        if "." in name.database and not self.has_nested_databases:
            raise InvalidArgumentError(
                f"{self}: {str(name)!r} names no table there: databases have one level: write database.table"
            )

    def table(self, name: TableName) -> CatalogTable | None:
        """Return a table; None if it's not there."""
        return self.tables(name.database, [name.table]).get(name.table)

    @abstractmethod
    def create_table(self, table: CatalogTable) -> None:
        """Create a table; its database must be there."""

    @abstractmethod
    def alter_table(self, table: CatalogTable, *, cascade: bool = False) -> None:
        """Replace location, columns, format and properties of a table.

        Args:
            table: the table as it's to be, made from what `tables` returned.
            cascade: whether its partitions get its columns too.
        """

    @abstractmethod
    def drop_table(self, name: TableName) -> bool:
        """Remove a table and its partitions from the catalog; files stay. Return whether it was there."""

    @abstractmethod
    def partitions(self, table: CatalogTable, values: Sequence[Values] | None = None) -> list[CatalogPartition]:
        """Return partitions, in no order.

        Args:
            table: the table, as `tables` returned it.
            values: the values of the partitions that are asked for; None for all. Missing ones are left out.
        """

    def partition_values(self, table: CatalogTable) -> list[Values]:
        """Return the values of all partitions, in no order."""
        return [each.values for each in self.partitions(table)]

    @abstractmethod
    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions; those that are there stay as they are."""

    @abstractmethod
    def alter_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Give partitions that are there a location, and the table's columns and format."""

    @abstractmethod
    def drop_partitions(self, table: CatalogTable, values: Sequence[Values]) -> None:
        """Remove partitions from the catalog; their files stay. Those that aren't there are no error."""

    def close(self) -> None:  # noqa: B027 - a catalog without connections has none to close
        """Close connections; a later call opens them again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __str__(self) -> str:
        return self.address


_log = logging.getLogger(__name__)

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_ATTEMPTS: Final = 4
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 60.0
"""The longest wait that a service may ask for; after a longer one the caller may try again."""


def batches(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Yield the items in groups of `size`, the last one maybe smaller."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def with_retries(attempt: Callable[[], _Answer], context: Context) -> _Answer:
    """Return what a request answers; repeat it a few times, with growing waits, while its error says it may succeed.

    It waits as long as the service asks for, but at most a minute.

    Raises:
        PudiError: of the last attempt.
    """
    for number in range(1, _ATTEMPTS):
        try:
            return attempt()
        except PudiError as error:
            asked = error.retry_after_s if isinstance(error, UnavailableError) else 0.0
            if not error.retryable or asked > _LONGEST_WAIT_S:
                raise
            wait = asked + _FIRST_WAIT_S * 2 ** (number - 1) * context.uniform(0.5, 1.5)
            _log.info("asking again in %.1f s, after attempt %d of %d: %s", wait, number, _ATTEMPTS, error)
            context.clock.sleep(wait)
    return attempt()
