"""The protocol of catalogs: what pudi asks of a Hive Metastore, Glue, Polaris, or one of the user's."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from pudi.catalogs.values import CatalogPartition, CatalogTable, TableName, Values
from pudi.context import Context
from pudi.errors import PudiError

if TYPE_CHECKING:
    from typing_extensions import Self


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


def batches(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Yield the items in groups of `size`, the last one maybe smaller."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def with_retries(attempt: Callable[[], _Answer], context: Context) -> _Answer:
    """Return what a request answers; repeat it a few times, with growing waits, while its error says it may succeed.

    Raises:
        PudiError: of the last attempt.
    """
    for number in range(1, _ATTEMPTS):
        try:
            return attempt()
        except PudiError as error:
            if not error.retryable:
                raise
            wait = _FIRST_WAIT_S * 2 ** (number - 1) * context.uniform(0.5, 1.5)
            _log.info("asking again in %.1f s, after attempt %d of %d: %s", wait, number, _ATTEMPTS, error)
            context.clock.sleep(wait)
    return attempt()
