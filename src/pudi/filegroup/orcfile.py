"""ORC base files, for reading: a file in, Arrow tables out."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import orc

from pudi.context import Storage
from pudi.errors import CorruptError, NotSupportedError
from pudi.filegroup.basefile import corrupt_file
from pudi.filegroup.opening import open_whole
from pudi.filegroup.slices import BaseFile
from pudi.format import BloomFilter, ColumnStatistics

ORC_EXTENSION = "orc"
"""Extension of ORC base files (HoodieFileFormat)."""


class OrcFileReader:
    """One ORC base file opened for reading, as `BaseFileReader` is for Parquet; its groups are stripes.

    Args:
        storage: the table's files.
        base: the file.

    Raises:
        NotFoundError: the file is gone.
        CorruptError: it isn't an ORC file.
    """

    def __init__(self, storage: Storage, base: BaseFile) -> None:
        self._storage = storage
        self._base = base
        source = open_whole(storage, base)
        try:
            self._file = orc.ORCFile(source)
            self._schema: pa.Schema = self._file.schema.remove_metadata()
        except (pa.ArrowException, OSError) as error:
            raise self.corrupt(error) from error

    @property
    def num_groups(self) -> int:
        """How many stripes the file has."""
        return int(self._file.nstripes)

    @property
    def schema(self) -> pa.Schema:
        """The file's columns, in its physical types."""
        return self._schema

    @property
    def num_rows(self) -> int:
        """How many rows the file has."""
        return int(self._file.nrows)

    def group_rows(self, group: int) -> int:
        """How many rows a stripe has."""
        return int(self._file.read_stripe(group, columns=self._schema.names[:1]).num_rows)

    def key_range(self) -> tuple[str, str] | None:
        """Least and greatest record key: not known, since pyarrow tells nothing of a file's own properties."""
        return None

    def bloom_filter(self) -> BloomFilter | None:
        """The filter of the record keys: not known, as with `key_range`."""
        return None

    def statistics(self, column: str) -> list[ColumnStatistics | None]:
        """Return no bounds: pyarrow exposes none of ORC stripes."""
        return [None] * self.num_groups

    def read(self, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> pa.Table:
        """Rows in their physical types.

        Args:
            columns: top-level columns that the file has; None for all.
            groups: stripes; None for all.

        Raises:
            CorruptError: the bytes are not what the footer says.
            NotSupportedError: a column holds timestamps.
        """
        names = self._schema.names if columns is None else list(columns)
        for name in names:
            self._check_clock(self._schema.field(name).type, name)
        wanted = range(self.num_groups) if groups is None else groups
        schema = pa.schema([self._schema.field(name) for name in names])
        try:
            batches = [self._file.read_stripe(number, columns=names).select(names) for number in wanted]
            return pa.Table.from_batches(batches, schema=schema)
        except (pa.ArrowException, OSError) as error:
            raise self.corrupt(error) from error

    def corrupt(self, reason: object) -> CorruptError:
        """The error for a file that can't be read."""
        return corrupt_file(self._storage, self._base, reason)

    def _check_clock(self, kind: pa.DataType, name: str) -> None:
        """Refuse timestamps: Hudi stores them by its writer's time zone, which pyarrow doesn't tell."""
        if pa.types.is_timestamp(kind):
            raise NotSupportedError(
                f"column {name!r} holds timestamps in an ORC file, which are in its writer's time zone: read it with "
                "Apache Hudi, or leave the column out",
                table=self._storage.root,
                path=self._base.path,
            )
        for number in range(kind.num_fields):
            self._check_clock(kind.field(number).type, f"{name}.{kind.field(number).name}")
