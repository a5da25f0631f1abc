"""The checkpoint of `pudi.spark.stream_changes`: what each batch reads, written before it, and that it is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pudi.context import Context, Storage
from pudi.errors import ConflictError, CorruptError, InvalidArgumentError, NotFoundError, TableExistsError
from pudi.format import MaxBytes
from pudi.scan.feed import ChangeBatch

_METADATA, _OFFSETS, _COMMITS = "metadata", "offsets", "commits"
_VERSION = 1
_KEPT = 100
"""Number of batches whose files are kept (spark.sql.streaming.minBatchesToRetain)."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class NumberedBatch:
    """A batch by its number, which counts from 0."""

    number: int
    batch: ChangeBatch


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder in which a stream of changes keeps its progress; laid out as that of a Spark query.

    File `metadata` identifies stream and table, `offsets/N` states what batch N reads, `commits/N` that it's done. A
    batch without the latter is done again. Every file is created once, atomically: of two runners on one checkpoint,
    one fails at the next batch.

    Attributes:
        storage: the folder.
        id: identity of the stream.
        start: the offset that the first batch begins after.
    """

    storage: Storage
    id: str
    start: str

    @classmethod
    def open(cls, storage: Storage, context: Context, stream: Mapping[str, str], start: str) -> Checkpoint:
        """Open the checkpoint of a folder, or begin one in a folder without.

        Args:
            storage: the folder.
            context: source of the stream's identity.
            stream: what the stream reads: a later one with the same checkpoint must read the same.
            start: the offset that a new stream begins after.

        Raises:
            InvalidArgumentError: it's the checkpoint of a stream that reads something else.
            CorruptError: it can't be read.
        """
        new = {"version": _VERSION, "id": context.writer_id(), "start": start, **stream}
        try:
            storage.create(_METADATA, _encoded(new), durable=True)
        except TableExistsError:
            pass
        else:
            if any(storage.list_dir(folder)[0] for folder in (_OFFSETS, _COMMITS)):
                storage.delete([_METADATA])
                raise CorruptError("the checkpoint has batches and no file 'metadata'", path=_path(storage, _METADATA))
        found = _read(storage, _METADATA, dict)
        if found.get("version") != _VERSION:
            raise CorruptError(
                f"the checkpoint is of version {found.get('version')!r}, and this release reads {_VERSION}: if a Spark "
                "query made it, choose another folder",
                path=_path(storage, _METADATA),
            )
        for name, value in stream.items():
            if found.get(name) != value:
                raise InvalidArgumentError(
                    f"the checkpoint {storage.root} belongs to a stream with {name} {found.get(name)!r}, and this one "
                    f"has {value!r}: give each stream a checkpoint folder of its own"
                )
        return _read(storage, _METADATA, lambda found: cls(storage, str(found["id"]), _text(found["start"])))

    def last(self) -> tuple[NumberedBatch | None, bool]:
        """The last batch that was begun, and whether it is done; None before the first one.

        Raises:
            CorruptError: the checkpoint can't be read, or a batch is missing.
        """
        begun, done = self._numbers(_OFFSETS), self._numbers(_COMMITS)
        if not begun:
            if done:
                raise CorruptError("the checkpoint has no offsets", path=_path(self.storage, _OFFSETS))
            return None, False
        last, finished = max(begun), max(done, default=-1)
        if finished > last or finished < last - 1:
            raise CorruptError(
                f"batch {last} is the last one that the checkpoint has offsets of, and batch {finished} the last one "
                "that is done: files are missing",
                path=_path(self.storage, _OFFSETS),
            )
        path = f"{_OFFSETS}/{last}"
        batch = _read(self.storage, path, lambda f: ChangeBatch(_text(f["since"]), _text(f["until"]), True))
        return NumberedBatch(last, batch), finished == last

    def begin(self, batch: NumberedBatch, *, again: bool = False) -> None:
        """Note what a batch will read; `again` replaces what was noted.

        Raises:
            ConflictError: another runner has begun it.
        """
        content = _encoded({"since": batch.batch.since, "until": batch.batch.until})
        path = f"{_OFFSETS}/{batch.number}"
        if again:
            self.storage.put(path, content, durable=True)
        else:
            self._create(path, content)

    def finish(self, batch: NumberedBatch) -> None:
        """Note that a batch is done, and delete what is older than the batches that are kept.

        Raises:
            ConflictError: another runner has done it.
        """
        self._create(f"{_COMMITS}/{batch.number}", _encoded({"until": batch.batch.until}))
        old = batch.number - _KEPT
        if old >= 0:
            self.storage.delete([f"{_OFFSETS}/{old}", f"{_COMMITS}/{old}"])

    def _create(self, path: str, content: bytes) -> None:
        try:
            self.storage.create(path, content, durable=True)
        except TableExistsError as error:
            raise ConflictError(
                f"another stream uses the checkpoint {self.storage.root}: {path} is there already"
            ) from error

    def _numbers(self, folder: str) -> list[int]:
        names = (info.path.rpartition("/")[2] for info in self.storage.list_dir(folder)[0])
        return [int(name) for name in names if name.isascii() and name.isdigit()]


def _encoded(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isdigit():
        raise ValueError(value)
    return value


def _read(storage: Storage, path: str, parse: Callable[[Any], _Value]) -> _Value:
    try:
        return parse(json.loads(storage.read(path, MaxBytes.NOTE)))
    except NotFoundError as error:
        raise CorruptError("a file of the checkpoint is gone", path=_path(storage, path)) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptError(
            "the checkpoint is damaged: restore the file from a backup, or begin again with a new checkpoint",
            path=_path(storage, path),
        ) from error


def _path(storage: Storage, path: str) -> str:
    return f"{storage.root}/{path}"
