"""Compute the keys of a secondary index for the records of a file slice."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pudi.context import Storage
from pudi.filegroup import FileSlice
from pudi.metadata import leaf_values
from pudi.metadata.secondary import keys_of_rows
from pudi.plan import Merging, ReadPlan
from pudi.schema import RECORD_KEY
from pudi.task.index_keys import KeyReading
from pudi.task.read import SliceReader


@dataclass(frozen=True, slots=True)
class SecondaryReading:
    """Reads the keys of a secondary index; picklable.

    Attributes:
        reading: how slices are read.
        column: name of the indexed column; dots separate the fields of a struct.
    """

    reading: KeyReading
    column: str

    @property
    def merging(self) -> Merging | None:
        """See `ReadsKeys`."""
        return self.reading.merging

    def keys(self, storage: Storage, file_slice: FileSlice) -> pa.Array:
        """Return the keys of all records of a slice, merged.

        Raises:
            NotFoundError: a file is gone.
            CorruptError: one can't be read.
            NotSupportedError: an index can't have a column of this type.
        """
        top = self.column.split(".", 1)[0]
        wanted = (RECORD_KEY, top)
        reading = self.reading
        plan = ReadPlan(storage.root, reading.schema, wanted, history=reading.history, merging=reading.merging)
        schema = pa.schema([reading.schema.field(name) for name in wanted])
        rows = pa.Table.from_batches(SliceReader(storage, plan).read(file_slice), schema)
        return keys_of_rows(leaf_values(rows, self.column), rows[RECORD_KEY])
