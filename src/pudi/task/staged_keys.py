"""Stage the keys that a write adds to and removes from a file group, in a file beside the markers.

The file has one batch per file group of the index, so that a later job reads only its part. No key passes through the
driver, on either engine.

The record index has one location for a key. Writers may put a key into a second file group nevertheless: by an insert
that looks nothing up, or by an index that looks only into one partition. The jobs that read staged keys find these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pudi.context import Storage
from pudi.filegroup import FileSlice, LogScope
from pudi.format import METADATA_DIR, FileGroupId
from pudi.metadata import RECORD_AVRO
from pudi.metadata.changes import Changes
from pudi.metadata.record_index import decode_locations, read_shard
from pudi.schema import RECORD_KEY
from pudi.schema.arrays import joined_arrays, one_array, places_among
from pudi.storage import StorageBelow
from pudi.tagging.index import groups_in
from pudi.task.jobs import FileResult
from pudi.task.portions import Portion, PortionFile, portions_by_part, read_portions, write_portions

KEY: Final = "key"
GONE: Final = "gone"


@dataclass(frozen=True, slots=True)
class StagedKeys:
    """A file of staged keys.

    Attributes:
        rows: the file, with a portion for each file group of the index.
        partition: partition path of the file group that the keys belong to.
        index: the index's partition of the metadata table; empty if the reader of the result knows it.
    """

    rows: PortionFile
    partition: str = ""
    index: str = ""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The file in which the keys that change in one file group are staged.

    Attributes:
        path: the file to write.
        partition: partition path of the file group.
        location: the index's value for keys that exist from now on.
        index: see `StagedKeys`.
    """

    path: str
    partition: str
    location: bytes
    index: str = ""


def stage_keys(
    storage: Storage, file: KeyFile, numbers: npt.NDArray[np.int64], new: pa.Array, gone: pa.Array
) -> StagedKeys:
    """Stage the keys that change in one file group.

    Args:
        storage: the table's files.
        file: the file to write; without keys none is.
        numbers: the index's file group of each key, those of `new` before those of `gone`.
        new: keys that exist from now on, without duplicates.
        gone: keys that exist no more.
    """
    keys, flags = joined_arrays([new, gone]), np.arange(len(new) + len(gone)) >= len(new)
    rows = pa.table([keys, pa.array(flags)], names=[KEY, GONE])
    return StagedKeys(write_portions(storage, file.path, rows, numbers, file.location), file.partition, file.index)


def staged_of(results: Iterable[FileResult]) -> list[StagedKeys]:
    """Return the staged keys of jobs, without empty ones."""
    return [each for result in results for each in result.staged if isinstance(each, StagedKeys) and each.rows.path]


def portions_by_shard(staged: Iterable[StagedKeys]) -> Mapping[tuple[str, int], tuple[Portion, ...]]:
    """Return the portions by partition path and number of the index's file group."""
    return portions_by_part((each.partition, each.rows) for each in staged)


Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A record key in two file groups, one key for many.

    Attributes:
        key: the key.
        old: the file group that the index names; it may be gone from the table.
        new: the file group that the commit put the key into.
        within_commit: whether the commit put it into both.
    """

    key: str
    old: FileGroupId
    new: FileGroupId
    within_commit: bool = False


@dataclass(frozen=True, slots=True)
class IndexedKeys(FileResult):
    """The result of a job that writes to the record index, or looks into it.

    Attributes:
        repeated: keys in two file groups: one key for each old file group.
    """

    repeated: tuple[Repeated, ...] = ()


def repeated_of(results: Iterable[FileResult]) -> tuple[Repeated, ...]:
    """Return what jobs found."""
    return tuple(each for result in results if isinstance(result, IndexedKeys) for each in result.repeated)


@dataclass(frozen=True, slots=True)
class KeyWatch:
    """Keys with which those that a commit adds to a file group of the record index are compared.

    Attributes:
        scope: the instants whose entries of the file group count; None if only the commit's own keys are compared.
    """

    scope: LogScope | None = None

    def find(self, below: Storage, file_slice: FileSlice, staged: StagedRows) -> tuple[Repeated, ...]:
        """Return the repeated ones among staged keys.

        Args:
            below: the metadata table's files.
            file_slice: the file group, without what the commit writes to it.
            staged: the keys.
        """
        known = () if self.scope is None else staged.known(below, file_slice, self.scope)
        return (*staged.within_commit(), *known)


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The staged keys of one commit for one file group of an index, as numbers.

    Attributes:
        keys: each key once.
        codes: for each row the number of its key.
        gone: for each row whether the file group lost the key, instead of getting it.
        places: for each row the number of its location.
        locations: the index's value for each file group with rows.
    """

    keys: pa.Array
    codes: Numbers
    gone: npt.NDArray[np.bool_]
    places: Numbers
    locations: tuple[bytes, ...]

    @classmethod
    def of(cls, portions: Iterable[tuple[pa.RecordBatch, bytes]]) -> StagedRows:
        """Return the rows of staged files."""
        batches, numbers, known = [], [], dict[bytes, int]()
        for batch, location in portions:
            batches.append(batch)
            numbers.append(known.setdefault(location, len(known)))
        if not batches:
            nothing = np.empty(0, dtype=np.int64)
            return cls(pa.array([], pa.string()), nothing, np.empty(0, dtype=np.bool_), nothing, ())
        rows = pa.Table.from_batches(batches)
        coded = pc.dictionary_encode(one_array(rows[KEY]))
        places = np.repeat(np.array(numbers, dtype=np.int64), [batch.num_rows for batch in batches])
        gone = np.asarray(rows[GONE]).astype(bool)
        codes = np.asarray(coded.indices).astype(np.int64)
        return cls(coded.dictionary.cast(pa.string()), codes, gone, places, tuple(known))

    def changes(self) -> Changes:
        """Return the changes of the file group of the index.

        A key that one file group lost and another got is a moved record: it exists. If several file groups got a key,
        the last one counts.
        """
        there = np.flatnonzero(~self.gone)
        last = np.full(len(self.keys), -1, dtype=np.int64)
        last[self.codes[there]] = there
        known = last >= 0
        values = pa.array(self.locations, pa.binary()).take(pa.array(self.places[last[known]]))
        return Changes(self.keys.filter(pa.array(known)), values, self.keys.filter(pa.array(~known)))

    def within_commit(self) -> Iterator[Repeated]:
        """Yield a key that several file groups got, if there is one."""
        there = np.flatnonzero(~self.gone)
        codes, places = self.codes[there], self.places[there]
        one = np.zeros(len(self.keys), dtype=np.int64)
        one[codes] = places
        others = np.flatnonzero(one[codes] != places)
        if len(others):
            row, of_places = others[0], self._decoded()
            code = codes[row]
            yield Repeated(
                self.keys[int(code)].as_py(), of_places[one[code]], of_places[places[row]], within_commit=True
            )

    def known(self, below: Storage, file_slice: FileSlice, scope: LogScope) -> Iterator[Repeated]:
        """Yield keys that file groups got, and that the index has in others, which don't lose them.

        Args:
            below: the metadata table's files.
            file_slice: the file group of the index.
            scope: the instants whose entries count.
        """
        there = np.flatnonzero(~self.gone)
        if not len(there) or (file_slice.base is None and not file_slice.logs):
            return
        new = np.full(len(self.keys), -1, dtype=np.int64)
        new[self.codes[there]] = self.places[there]
        found = read_shard(below, file_slice, scope, self.keys.filter(pa.array(new >= 0)))
        if not found.num_rows:
            return
        names = self._decoded()
        held = _numbers_of(found, names)
        codes = places_among(one_array(found[RECORD_KEY]), self.keys)
        stays = ~np.isin(codes * len(names) + held, self.codes * len(names) + self.places)
        yield from _one_each(self.keys, codes[stays], held[stays], new[codes[stays]], names)

    def _decoded(self) -> list[FileGroupId]:
        """Return partition path and file id of each location."""
        values = pa.array(self.locations, pa.binary())
        return list(zip(*(each.to_pylist() for each in decode_locations(values, RECORD_AVRO, path="")), strict=True))


@dataclass(frozen=True, slots=True)
class RepeatTask:
    """Look the keys of one commit up in entries that others have added since to a file group of the index. Picklable.

    Attributes:
        number: number of the task, from 0.
        slice: the file group with these entries.
        scope: the instants whose entries count.
        portions: the keys.
    """

    number: int
    slice: FileSlice
    scope: LogScope
    portions: tuple[Portion, ...]

    @property
    def weight(self) -> int:
        """Bytes to read."""
        return self.slice.size + sum(portion.size for portion in self.portions)

    def run(self, storage: Storage, attempt: int) -> IndexedKeys:
        """Look them up; see `FileJob.run`."""
        staged = StagedRows.of(read_portions(storage, self.portions))
        found = staged.known(StorageBelow(storage, METADATA_DIR), self.slice, self.scope)
        return IndexedKeys(self.number, 0, None, repeated=tuple(found))


@dataclass(frozen=True, slots=True)
class LateTask:
    """Compare what commits wrote during a build to a file group of the index with its new base file. Picklable.

    Attributes:
        number: number of the task, from 0.
        slice: the file group.
        scope: the instants whose log blocks count.
    """

    number: int
    slice: FileSlice
    scope: LogScope

    @property
    def weight(self) -> int:
        """Bytes to read."""
        return self.slice.size

    def run(self, storage: Storage, attempt: int) -> IndexedKeys:
        """Compare them; see `FileJob.run`."""
        below, where = StorageBelow(storage, METADATA_DIR), self.slice.group
        late = read_shard(below, FileSlice(*where, None, self.slice.logs), self.scope)
        keys, names = one_array(late[RECORD_KEY]), list[FileGroupId]()
        new = _numbers_of(late, names)
        built = read_shard(below, FileSlice(*where, self.slice.base), self.scope, keys)
        held = _numbers_of(built, names)
        codes = places_among(one_array(built[RECORD_KEY]), keys)
        stays = held != new[codes]
        found = _one_each(keys, codes[stays], held[stays], new[codes[stays]], names)
        return IndexedKeys(self.number, 0, None, repeated=tuple(found))


def _numbers_of(rows: pa.Table, names: list[FileGroupId]) -> Numbers:
    """Return for each row of the index the number of its file group; new file groups are added to `names`."""
    known = {place: number for number, place in enumerate(names)}
    groups, numbers = groups_in(rows)
    own = [known.setdefault(group, len(known)) for group in groups]
    names[:] = known
    found: Numbers = np.array(own, dtype=np.int64)[numbers]
    return found


def _one_each(
    keys: pa.Array, codes: Numbers, old: Numbers, new: Numbers, names: Sequence[FileGroupId]
) -> Iterator[Repeated]:
    """Yield one key for each old file group."""
    for row in np.unique(old, return_index=True)[1].tolist():
        yield Repeated(keys[int(codes[row])].as_py(), names[old[row]], names[new[row]])
