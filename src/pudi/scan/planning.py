"""Plan a read: choose its columns and its slices, leaving out what the metadata table says that it may."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pudi.client import MetaClient, TableSnapshot
from pudi.config import ReadOptions, metadata_switched_off
from pudi.context.runtime import lazy_module
from pudi.errors import InvalidArgumentError, PudiError
from pudi.expr import Column
from pudi.filegroup import FileSlice
from pudi.format import FileGroupId
from pudi.format.metadata_partitions import FILES
from pudi.indexes.kind import IndexRead, LookupResult
from pudi.metadata import MetadataTable
from pudi.plan import ReadPlan
from pudi.schema.spark_types import quote

if TYPE_CHECKING:
    from pudi.indexes import registry
else:
    registry = lazy_module("pudi.indexes.registry")

_log = logging.getLogger("pudi.scan")


@dataclass(frozen=True, slots=True)
class Fields:
    """The columns of a scan, top-level columns or fields of structs, under the names that the caller gave.

    Attributes:
        paths: by column, its name and those of the fields inside, from the outside in.
    """

    paths: tuple[tuple[str, ...], ...]

    def schema(self, read: pa.Schema) -> pa.Schema:
        """The columns, of the schema that is read."""
        found = []
        for name, *inner in self.paths:
            field = read.field(name)
            for each in inner:
                field = field.type.field(each).with_nullable(field.nullable or field.type.field(each).nullable)
            found.append(field.with_name(".".join((name, *inner))))
        return pa.schema(found)

    def of_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of some rows."""
        if not self.paths:
            return batch.select([])  # as many rows: batches made of no arrays have none
        columns = [
            batch.column(name) if not inner else pc.struct_field(batch.column(name), inner)
            for name, *inner in self.paths
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema(batch.schema))

    def chosen(self, names: Sequence[str]) -> Fields:
        """Return some of the columns, by their names in the scan."""
        by_name = {".".join(path): path for path in self.paths}
        return Fields(tuple(by_name[name] for name in names))

    def stored(self, column: Column) -> Column:
        """Return a column of the scan as the column, or the field inside, that is read."""
        path = next(path for path in self.paths if ".".join(path) == column.path[0])
        return Column((*path, *column.path[1:]), column.type)

    def of_frame(self, frame: Any) -> Any:
        """The columns of a Spark DataFrame."""
        texts = (f"{'.'.join(map(quote, path))} AS {quote('.'.join(path))}" for path in self.paths)
        return frame.selectExpr(*texts)


def chosen_columns(columns: Sequence[str] | None, schema: pa.Schema) -> tuple[Sequence[str] | None, Fields | None]:
    """Split what a user asks for into the columns to read, and the fields to choose from them; None if there are none.

    Args:
        columns: names of columns, or of fields with dots; None for all columns.
        schema: the table's columns.

    Raises:
        InvalidArgumentError: a column is named twice.
    """
    if columns is None or isinstance(columns, str) or not isinstance(columns, Iterable):
        return columns, None  # the plan refuses what is no list
    paths = [_path(name, schema) for name in columns]
    if all(len(path) == 1 for path in paths):
        return columns, None
    if len(set(paths)) < len(paths):
        raise InvalidArgumentError("a column is named twice in columns")
    return list(dict.fromkeys(path[0] for path in paths)), Fields(tuple(paths))


def _path(name: str, schema: pa.Schema) -> tuple[str, ...]:
    """The names from the outside in; a name of a column itself, or an unknown one, as it is."""
    # the plan refuses what is no text
    if not isinstance(name, str) or "." not in name or schema.get_field_index(name) >= 0:
        return (name,)
    first, *inner = name.split(".")
    if schema.get_field_index(first) < 0:
        return (name,)
    kind = schema.field(first).type
    for position, each in enumerate(inner):
        if not pa.types.is_struct(kind) or kind.get_field_index(each) < 0:
            known = (
                [f"{'.'.join((first, *inner[:position]))}.{f.name}" for f in kind] if pa.types.is_struct(kind) else []
            )
            has = f"it has {', '.join(known)}" if known else f"it is {kind}"
            raise InvalidArgumentError(f"there is no column {name!r}: {'.'.join((first, *inner[:position]))}: {has}")
        kind = kind.field(each).type
    return (first, *inner)


@dataclass(frozen=True, slots=True)
class Skipper:
    """Finds the slices that a read needs by the metadata table of one table.

    A metadata table that can't be read, or hasn't kept up, is said in the log; then it finds nothing out.

    Args:
        snapshot: the table, as the scan sees it.
        newest: whether that is the table's newest state, which the metadata table's indexes describe.
    """

    snapshot: TableSnapshot
    newest: bool = False

    def open(self, plan: ReadPlan) -> MetadataTable | None:
        """The metadata table; None where it's of no use."""
        try:
            return self.snapshot.metadata_table()
        except PudiError as error:
            _warn(plan, error)
            return None

    def places(self, plan: ReadPlan, table: MetadataTable) -> LookupResult | None:
        """Return the places of the records that a plan asks for by key or indexed value; None if they aren't known."""
        try:
            if plan.narrowed is None or not self.newest or not table.is_known_to(self.snapshot.timeline):
                return None
            read = self._read(table)
            return next((found for kind in registry.KINDS if (found := kind.locate(read, plan)) is not None), None)
        except PudiError as error:
            _warn(plan, error)
            return None

    def skip(self, plan: ReadPlan, table: MetadataTable) -> ReadPlan:
        """Return the plan with only those slices that may contain matching rows."""
        if plan.narrowed is None or not plan.slices:
            return plan
        try:
            read = self._read(table)
            for kind in registry.KINDS:
                plan = kind.skip(read, plan)
        except PudiError as error:
            _warn(plan, error)
            return replace(plan, skipped=())
        return plan

    def _read(self, table: MetadataTable) -> IndexRead:
        meta = self.snapshot.meta
        millis = (name.split(".")[0] for name in self.snapshot.schema.unwritable)
        # Hudi's statistics of columns that files leave out are about the nulls that some files have in their place
        return IndexRead(meta, table, frozenset(millis) | frozenset(meta.path_columns))


def _warn(plan: ReadPlan, error: PudiError) -> None:
    _log.warning("data skipping is off for %s, since its metadata table can't be used: %s", plan.table, error)


def skipper(snapshot: TableSnapshot, *, newest: bool = False) -> Skipper | None:
    """Return the pruning step; None if the table has no usable index or the user disabled it."""
    if not set(snapshot.config.metadata_partitions) - {FILES}:
        return None
    if metadata_switched_off(snapshot.options) or not snapshot.options[ReadOptions.data_skipping]:
        return None
    return Skipper(snapshot, newest)


Groups = Collection[FileGroupId]
"""File groups: partition path and file id of each."""


class Slices(Protocol):
    """Lists file slices."""

    def __call__(self, opened: MetadataTable | None = None, groups: Groups | None = None) -> Sequence[FileSlice]:
        """The slices that a scan sees.

        Args:
            opened: the metadata table, where it's open already.
            groups: the file groups that are wanted; None for all.
        """


@dataclass(frozen=True, slots=True)
class Planner:
    """Finds the slices of one scan, the fewest that surely hold all wanted rows.

    With an index that returns file groups, only these are listed. Otherwise all are listed, and statistics prune them.

    Args:
        meta: the table.
        slices: lists its slices.
        skipper: asks its indexes; None where there are none that help.
    """

    meta: MetaClient
    slices: Slices
    skipper: Skipper | None = None

    def plan(self, plan: ReadPlan) -> ReadPlan:
        """The plan with its slices.

        Raises:
            NotFoundError: a file is gone, cleaned since the scan was made.
        """
        if self.skipper is None or plan.narrowed is None:
            return plan.with_slices(self.slices(), self.meta.keys)
        table = self.skipper.open(plan)
        if table is None:
            return plan.with_slices(self.slices(), self.meta.keys)
        places = self.skipper.places(plan, table)
        groups = None if places is None else places.groups
        if places is not None and groups is None:
            plan = replace(plan, unused=(places.index, places.unused))
        elif places is not None and groups is not None:
            found = self._found(plan, table, places.index, groups)
            if found is not None:
                return found
        return self.skipper.skip(plan.with_slices(self.slices(table), self.meta.keys), table)

    def counted(self, planned: ReadPlan, plan: ReadPlan) -> ReadPlan:
        """Return the plan with its slices and the number of slices before pruning, which requires listing all.

        Args:
            planned: what `plan` gave.
            plan: the plan before `plan()`.
        """
        if planned.found_by is None:
            return planned
        whole = plan.with_slices(self.slices(), self.meta.keys)
        left = (planned.found_by, len(whole.slices) - len(planned.slices), len(whole.slices))
        return replace(planned, pruned=whole.pruned, skipped=(left,))

    def _found(self, plan: ReadPlan, table: MetadataTable, index: str, groups: Groups) -> ReadPlan | None:
        """The plan over the file groups that an index named; None where one of them isn't there."""
        slices = self.slices(table, groups) if groups else ()
        if {each.group for each in slices} != groups:
            return None
        return replace(plan.with_slices(slices, self.meta.keys), found_by=index)
