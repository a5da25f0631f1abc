"""Define the interface of a kind of index; everything else iterates `registry`.

A kind is a type of partitions of the metadata table (`MetadataPartitionType`) and says how its indexes are asked for,
built, maintained by commits, read, and checked. Partitions without a kind (`files`, `partition_stats`) belong to the
metadata table itself, or to the type that lists them as companions.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pudi.client import MetaClient
from pudi.client.changed_groups import may_change_keys
from pudi.client.table_keys import key_generator
from pudi.config import Options
from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError
from pudi.format import CommitMetadata, FileGroupId
from pudi.format.metadata_partitions import MetadataPartitionType
from pudi.indexes.checking import Difference, IndexCheck
from pudi.indexes.indexed_commit import CommitChanges, IndexedCommit, PlannedWrite, RemovedFiles
from pudi.metadata import MetadataTable
from pudi.metadata.changes import Changes
from pudi.metadata_write.build import Building, IndexBuilder
from pudi.metadata_write.index_defs import IndexRequest, IndexSpec, defined_index, spec_of
from pudi.plan import ReadPlan
from pudi.plan.entry_staging import EntryStaging
from pudi.plan.skipping import key_values_in_predicate, values_in_predicate
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import one_array

_FIRST_WITH_NAMES = 9
"""Table version from which on the properties say whether keys of one column hold the column's name."""


@dataclass(frozen=True, slots=True)
class IndexRead:
    """A read that asks indexes.

    Attributes:
        meta: the table.
        table: its metadata table.
        millis: columns whose statistics may be in milliseconds or in microseconds, or about nulls that stand in for
            what the path says.
    """

    meta: MetaClient
    table: MetadataTable
    millis: frozenset[str] = frozenset()

    def by_keys(self, partition: str, keys: pa.Array) -> pa.Table:
        """Read the records of a partition of the metadata table that have some keys."""
        return self.table.read(partition, keys=keys)

    def by_prefixes(self, partition: str, prefixes: Sequence[str]) -> pa.Table:
        """Read the records of a partition of the metadata table whose keys start with one of the prefixes."""
        return self.table.read(partition, prefixes=prefixes)


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The file groups of the records that a predicate asks for.

    Attributes:
        index: the index that was asked by the predicate's values.
        groups: partition path and file id of each file group; None if the index must not be used.
        unused: why it must not be used.
    """

    index: str
    groups: frozenset[FileGroupId] | None
    unused: str = ""


def keys_of_read(plan: ReadPlan, meta: MetaClient) -> pa.Array | None:
    """Return the record keys that all rows of a read have; None if these are unknown."""
    where, joined, schema = plan.where, plan.keys, plan.schema
    if joined is not None and RECORD_KEY in joined.rows.column_names:
        return one_array(joined.rows[RECORD_KEY]).unique()
    named = None if where is None or RECORD_KEY not in schema.names else values_in_predicate(where, RECORD_KEY)
    if named is not None:
        return pa.array(sorted(map(str, named)), pa.string())
    config = meta.config
    if not config.record_key_fields:
        return None
    rows = None if where is None else key_values_in_predicate(where, config.record_key_fields, schema)
    if joined is not None and set(config.record_key_fields) <= set(joined.rows.column_names):
        rows = joined.rows.select(list(config.record_key_fields))
    if rows is None:
        return None
    # below version 9 no property states whether a single-column key includes the column's name
    spellings = (True,) if config.version >= _FIRST_WITH_NAMES else (True, False)
    try:
        found = [key_generator(config, names_single=each).record_keys(rows) for each in spellings]
    except (InvalidArgumentError, NotSupportedError):  # no key matches, or pudi can't evaluate the condition
        return None
    return pa.chunked_array([chunk for keys in found for chunk in keys.chunks], pa.string()).unique()


def wrote_parquet(written: CommitMetadata) -> bool:
    """Return whether a commit wrote base files of Parquet."""
    return any((stat.path or "").endswith(".parquet") for stat in written.stats)


_log = logging.getLogger(__name__)


class IndexKind(ABC):
    """A kind of index; one instance serves all tables, so it holds no state.

    Attributes:
        type: the type of its partitions of the metadata table.
        requires: partitions that must exist before the index.
        is_record_level: whether its entries are about single records: readers rely on their completeness.
        needs_columns: whether a request must name columns.
    """

    type: MetadataPartitionType
    requires: tuple[str, ...] = ()
    is_record_level: bool = False
    needs_columns: bool = False

    @property
    def name(self) -> str:
        """The kind's name in `Table.create_index`, in messages and in the command line."""
        return self.type.index_name

    # asked for and defined

    def accepts(self, request: IndexRequest) -> bool:
        """Return whether a user's request is for an index of this kind."""
        return request.expr is None and request.kind.strip().lower() == self.name

    def requested(self, request: IndexRequest, version: int, options: Options, table: str) -> IndexSpec:
        """Return the index that a user asks for.

        Args:
            request: the request.
            version: the table's version.
            options: the user's.
            table: location of the table's root, for messages.

        Raises:
            InvalidArgumentError: the request makes no sense.
        """
        if request.settings:
            raise InvalidArgumentError(f"an index {self.name} has no setting {min(request.settings)!r}", table=table)
        if self.type.is_named:
            return request.over_one_column(self.type, version, table)
        if request.name is not None and request.name != self.name:
            raise InvalidArgumentError(f"a table has one {self.name} at most, which has that name", table=table)
        return IndexSpec(self.type, self.name, request.columns, version=self.type.version(version))

    def wanted(self, meta: MetaClient, options: Options) -> Iterator[IndexSpec]:
        """Find the indexes that a writer's options ask for explicitly.

        Raises:
            InvalidArgumentError: the options contradict each other.
        """
        yield from ()

    def is_default(self, options: Options) -> bool:
        """Return whether a new table gets the index, unless its options say otherwise."""
        return False

    # built

    @abstractmethod
    def builder(self, work: Building) -> IndexBuilder:
        """Return what builds an index."""

    def spec_to_rebuild(self, meta: MetaClient, partition: str) -> IndexSpec:
        """Return the index that a rebuild makes in place of a damaged one; its definition may be damaged too."""
        try:
            return defined_index(meta, partition)
        except CorruptError as error:
            _log.warning("table %s: %s", meta.storage.root, error)
            return spec_of(partition, {}, meta.config.version, meta.storage.root)

    def must_change(self, written: CommitMetadata) -> bool:
        """Return whether a commit certainly changes an index: if it did not, it missed the index's build.

        New and deleted keys change each record-level index.
        """
        changes = self.is_record_level and may_change_keys(written)
        return changes and any(stat.path and (stat.num_inserts or stat.num_deletes) for stat in written.stats)

    # maintained

    def staging(self, write: PlannedWrite, partitions: Sequence[str]) -> Iterator[EntryStaging]:
        """Return how the tasks of a write stage the entries of indexes with the files that they write.

        `prepare` gets what they staged. It reads the files of a commit where they staged nothing.

        Args:
            write: the write.
            partitions: the indexes of the kind that the table has now, ready or being built.
        """
        yield from ()

    @abstractmethod
    def prepare(self, commit: IndexedCommit, partitions: Sequence[str]) -> CommitChanges:
        """Find out what a commit changes, before the table's lock is taken; the engine may run jobs.

        Args:
            commit: the commit.
            partitions: the indexes of the kind that the table has now, ready or being built.

        Raises:
            NotFoundError: a file of the commit is missing.
            CorruptError: a file can't be read, or an index's definition is damaged.
        """

    def removed(
        self, commit: IndexedCommit, files: RemovedFiles, partitions: Sequence[str]
    ) -> Mapping[str, Changes | None]:
        """Return the records that change where files are deleted, under the table's lock.

        Nothing, unless a kind has records of files. Entries of records name file groups, which stay.

        Args:
            commit: the action that deleted them.
            files: the files.
            partitions: the indexes of the kind that the table has now, ready or being built.
        """
        return {}

    # read

    def skip(self, read: IndexRead, plan: ReadPlan) -> ReadPlan:
        """Leave out the file slices that hold no wanted rows, as far as the indexes of the kind know.

        Raises:
            PudiError: an index can't be read; the read goes on without it.
        """
        return plan

    def locate(self, read: IndexRead, plan: ReadPlan) -> LookupResult | None:
        """Find the file groups of the keys or values that a predicate names; None if that is unknown.

        Raises:
            PudiError: an index can't be read; the read goes on without it.
        """
        return None

    # checked

    @abstractmethod
    def check(self, check: IndexCheck, partitions: Sequence[str]) -> Iterator[Difference]:
        """Compare the indexes of the kind with the table's files.

        Args:
            check: the check; findings of its jobs are added to it.
            partitions: the indexes of the kind that readers use.
        """
