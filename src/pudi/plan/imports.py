"""Plan an import: the Parquet files of a folder in, the base files that they become out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_LEAST_ROWS = 10_000
"""Rows of an average row group from which copying several pays: readers of many small row groups are slow."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Parquet file to import.

    Attributes:
        path: path relative to the source's root.
        size: size in bytes.
        groups: number of rows and stored bytes of each row group.
        partition: partition path of all its rows; None if only the rows tell.
        values: columns that its folders tell (`city=nyc`), with the value as text; None for null.
        layout: what files must share for their chunks to stand in one base file.
        copies: whether its column chunks can be copied as they are.
    """

    path: str
    size: int
    groups: tuple[tuple[int, int], ...]
    partition: str | None = None
    values: tuple[tuple[str, str | None], ...] = ()
    layout: str = ""
    copies: bool = False

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(rows for rows, _ in self.groups)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some row groups of a file.

    Attributes:
        file: the file.
        groups: numbers of the row groups.
    """

    file: SourceFile
    groups: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self.file.groups[each][0] for each in self.groups)


@dataclass(frozen=True, slots=True)
class ImportUnit:
    """Row groups that one task imports: into one base file by copying, or into as many as there are partitions.

    Attributes:
        number: number of the task.
        pieces: the row groups.
        copies: whether the task copies them.
    """

    number: int
    pieces: tuple[Piece, ...]
    copies: bool

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def stored_bytes(self) -> int:
        """Stored bytes of the row groups."""
        return sum(piece.file.groups[each][1] for piece in self.pieces for each in piece.groups)


def plan_import(files: Iterable[SourceFile], max_file_bytes: int) -> tuple[ImportUnit, ...]:
    """Divide files among tasks, by row groups, so that each task has about as much as a base file may hold.

    A task that copies takes row groups of one partition and one layout. Row groups that are small on average are
    rewritten instead. A task that rewrites takes files of near partitions.

    Args:
        files: the files.
        max_file_bytes: size of base files (hoodie.parquet.max.file.size).
    """
    copied: dict[tuple[str | None, str], list[SourceFile]] = {}
    rewritten: list[SourceFile] = []
    for file in files:
        if file.copies and all(size <= 2 * max_file_bytes for _, size in file.groups):
            copied.setdefault((file.partition, file.layout), []).append(file)
        else:
            rewritten.append(file)
    packed = [(pieces, True) for group in copied.values() for pieces in _packed(group, max_file_bytes)]
    rewritten.sort(key=lambda file: (file.partition or "", file.path))
    packed += [(pieces, False) for pieces in _packed(rewritten, max_file_bytes)]
    return tuple(
        ImportUnit(number, pieces, copies and _is_large(pieces)) for number, (pieces, copies) in enumerate(packed)
    )


def _is_large(pieces: Sequence[Piece]) -> bool:
    groups = sum(len(piece.groups) for piece in pieces)
    return groups == 1 or sum(piece.rows for piece in pieces) >= _LEAST_ROWS * groups


def _packed(files: Iterable[SourceFile], most: int) -> Iterator[tuple[Piece, ...]]:
    """Return row groups in portions of a size, in their order; row groups without rows are left out."""
    pieces: list[Piece] = []
    size = 0
    for file in files:
        taken: list[int] = []
        for number, (rows, stored) in enumerate(file.groups):
            if not rows:
                continue
            if size and size + stored > most:
                pieces += [Piece(file, tuple(taken))] if taken else []
                yield tuple(pieces)
                pieces, taken, size = [], [], 0
            taken.append(number)
            size += stored
        pieces += [Piece(file, tuple(taken))] if taken else []
    if pieces:
        yield tuple(pieces)
