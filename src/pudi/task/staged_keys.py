"""Stage the keys that a write adds to and removes from a file group, in a file beside the markers.

The file has one batch per file group of the index, so that a later job reads only its part. No key passes through the
driver, on either engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pudi.context import Storage
from pudi.errors import CorruptError
from pudi.plan.entry_staging import StagedEntries
from pudi.schema.arrays import joined_arrays
from pudi.storage import open_input

KEY: Final = "key"
GONE: Final = "gone"
_STAGED = pa.schema([pa.field(KEY, pa.string()), pa.field(GONE, pa.bool_())])
_LOCATION, _SHARDS = b"location", b"shards"


@dataclass(frozen=True, slots=True)
class StagedKeys:
    """A file of staged keys.

    Attributes:
        path: the file; empty if no keys change.
        size: size of the file in bytes.
        partition: partition path of the file group that the keys belong to.
        shards: numbers of the index's file groups, in the order of the file's batches.
        records: number of keys for each of these.
        index: the index's partition of the metadata table; empty if the reader of the result knows it.
    """

    path: str = ""
    size: int = 0
    partition: str = ""
    shards: tuple[int, ...] = ()
    records: tuple[int, ...] = ()
    index: str = ""


@dataclass(frozen=True, slots=True)
class Portion:
    """The batch of a staged file for one file group of the index.

    Attributes:
        path: the file.
        size: size of the file in bytes.
        batch: number of the batch.
        records: number of keys.
    """

    path: str
    size: int
    batch: int
    records: int


def stage_keys(
    storage: Storage,
    path: str,
    partition: str,
    location: bytes,
    numbers: npt.NDArray[np.int64],
    new: pa.Array,
    gone: pa.Array,
    *,
    index: str = "",
) -> StagedKeys:
    """Stage the keys that change in one file group.

    Args:
        storage: the table's files.
        path: the file to write.
        partition: partition path of the file group.
        location: the index's value for keys that exist from now on.
        numbers: the index's file group of each key, those of `new` before those of `gone`.
        new: keys that exist from now on, without duplicates.
        gone: keys that exist no more.
        index: see `StagedKeys`.
    """
    keys = joined_arrays([new, gone])
    if not len(keys):
        return StagedKeys(partition=partition, index=index)
    flags = np.arange(len(keys)) >= len(new)
    order = np.argsort(numbers, kind="stable")
    rows = pa.table([keys.take(pa.array(order)), pa.array(flags[order])], schema=_STAGED).combine_chunks()
    shards, begin = np.unique(numbers[order], return_index=True)
    ends = [*begin[1:].tolist(), len(keys)]
    sink = pa.BufferOutputStream()
    schema = _STAGED.with_metadata({_LOCATION: location, _SHARDS: json.dumps(shards.tolist()).encode()})
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        for start, end in zip(begin.tolist(), ends, strict=True):
            writer.write_table(rows.slice(start, end - start))
    content = bytes(sink.getvalue())
    storage.put(path, content)
    counts = tuple(np.diff([*begin.tolist(), len(keys)]).tolist())
    return StagedKeys(path, len(content), partition, tuple(shards.tolist()), counts, index)


class MayStage(Protocol):
    """The result of a job that may stage keys."""

    @property
    def staged(self) -> tuple[StagedEntries, ...]:
        """Return what it has staged."""


def staged_of(results: Iterable[MayStage]) -> list[StagedKeys]:
    """Return the staged keys of jobs, without empty ones."""
    return [each for result in results for each in result.staged if isinstance(each, StagedKeys) and each.shards]


def portions_by_shard(staged: Sequence[StagedKeys]) -> Mapping[tuple[str, int], tuple[Portion, ...]]:
    """Return the portions by partition path and number of the index's file group."""
    found: dict[tuple[str, int], list[Portion]] = {}
    for each in staged:
        for batch, (shard, records) in enumerate(zip(each.shards, each.records, strict=True)):
            portion = Portion(each.path, each.size, batch, records)
            found.setdefault((each.partition, shard), []).append(portion)
    return {key: tuple(portions) for key, portions in found.items()}


def read_portions(storage: Storage, portions: Sequence[Portion]) -> Iterator[tuple[pa.RecordBatch, bytes]]:
    """Read keys with flags, and the location of those that exist, file by file.

    Raises:
        CorruptError: a file has other keys than its task wrote.
    """
    for portion in portions:
        with pa.ipc.open_file(open_input(storage, portion.path, portion.size)) as reader:
            location = (reader.schema.metadata or {}).get(_LOCATION)
            if location is None or portion.batch >= reader.num_record_batches:
                raise CorruptError("the staged file doesn't have the keys that its task wrote", path=portion.path)
            yield reader.get_batch(portion.batch), location
