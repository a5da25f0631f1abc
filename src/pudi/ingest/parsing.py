"""Parse files of records: Parquet, ORC, Avro, JSON and CSV in; an Arrow table, and the records that are none, out."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from pudi.config.arguments import text_given
from pudi.context import FileInfo, Storage
from pudi.errors import CorruptError, InvalidArgumentError, PudiError, SchemaError
from pudi.filegroup.basefile_copies import ForeignFile
from pudi.ingest.source import BadRecord
from pudi.schema import avro_to_arrow

MOST_BAD: Final = 1000
"""Bad records that are reported one by one in one file: a file with more is damaged as a whole."""
_ROW: Final = re.compile(r" in row \d+$")
"""Ends Arrow's errors; it counts in what was parsed together."""
_CODECS: Final = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
"""Compressions of text, by the end of a file's name."""
_NULL: Final = b"null"
"""A line that ends the process where Arrow parses it first, and that is a record of nulls elsewhere."""
MOST_SHOWN: Final = 10_000
"""Characters of a bad record that are kept."""


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """Options of CSV files.

    Attributes:
        header: whether the first line names the columns; without, a schema does.
        delimiter: the character between values, one of ASCII.

    Raises:
        InvalidArgumentError: the delimiter is none.
    """

    header: bool = True
    delimiter: str = ","

    def __post_init__(self) -> None:
        given = text_given(self.delimiter, "delimiter")
        if len(given) != 1 or not given.isascii() or given in '\r\n"\0':
            raise InvalidArgumentError(f"delimiter={given!r}: it is one character of ASCII, no quote or end of a line")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The records of a file.

    Attributes:
        rows: those that can be read.
        bad: those that can't.
    """

    rows: pa.Table
    bad: tuple[BadRecord, ...] = ()


Parser = Callable[[Storage, FileInfo, "pa.Schema | None", CsvOptions], Parsed]


def _parquet(storage: Storage, file: FileInfo, schema: pa.Schema | None, _: CsvOptions) -> Parsed:
    del schema  # the file has types
    opened = ForeignFile(storage, file.path, file.size)
    try:
        names = opened.schema.names
        parts = [opened.read(names, group) for group in range(len(opened.groups))]
        return Parsed(pa.concat_tables(parts) if parts else opened.schema.empty_table())
    finally:
        opened.close()


def _orc(storage: Storage, file: FileInfo, schema: pa.Schema | None, _: CsvOptions) -> Parsed:
    from pyarrow import orc  # noqa: PLC0415 - not in every build of pyarrow

    del schema
    try:
        return Parsed(orc.ORCFile(pa.BufferReader(storage.read(file.path))).read())
    except (pa.ArrowException, OSError) as error:
        raise _damaged(storage, file, error) from error


def _avro(storage: Storage, file: FileInfo, schema: pa.Schema | None, _: CsvOptions) -> Parsed:
    del schema
    try:
        reader = fastavro.reader(io.BytesIO(storage.read(file.path)))
        records, columns = list(reader), avro_to_arrow(json.dumps(reader.writer_schema))
        return Parsed(pa.Table.from_pylist(records, columns))
    except PudiError:
        raise
    except Exception as error:  # of fastavro, of its codecs, or of Arrow
        raise _damaged(storage, file, error) from error


def _json(storage: Storage, file: FileInfo, schema: pa.Schema | None, _: CsvOptions) -> Parsed:
    return parse_json(_text(storage, file).split(b"\n"), range(1, 1 << 62), schema, file.path, storage.root)


def parse_json(
    lines: Sequence[bytes], positions: Sequence[int], schema: pa.Schema | None, source: str, root: str
) -> Parsed:
    """Parse records of JSON, one a line.

    All lines are parsed together. Only if that fails, halves are, until the bad ones are alone.

    Args:
        lines: the records; blank ones are none.
        positions: the place of each, for errors.
        schema: columns to read as; others are found out.
        source: where they come from, for errors.
        root: location of that, for errors.

    Raises:
        CorruptError: too many are bad.
    """
    explicit = None if schema is None else pa.schema([_as_json_has_it(each) for each in schema])
    options = pa_json.ParseOptions(explicit_schema=explicit, newlines_in_values=False)
    block = pa_json.ReadOptions(block_size=max(1 << 20, *(len(line) + 2 for line in lines), 1))
    bare = [line.strip() for line in lines]
    numbers = np.array([number for number, line in enumerate(bare) if line not in {b"", _NULL}], dtype=np.int64)
    parts: list[pa.Table] = []
    kept: list[npt.NDArray[np.int64]] = []
    bad: list[BadRecord] = []

    def refuse(number: int, error: str) -> None:
        text = lines[number].decode("utf-8", "replace")[:MOST_SHOWN]
        bad.append(BadRecord(source, positions[number], text, error[:500]))
        check_count(bad, source, root)

    for number in (number for number, line in enumerate(bare) if line == _NULL):
        refuse(number, "null is no record")

    def read(start: int, end: int) -> None:
        some = numbers[start:end]
        parts.append(_read_json([lines[number] for number in some], block, options))
        kept.append(some)

    for place, error in _failing(len(numbers), read):
        refuse(int(numbers[place]), _ROW.sub("", error))
    if not parts:
        return Parsed((explicit or pa.schema([])).empty_table(), tuple(bad))
    try:
        rows = pa.concat_tables(parts, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise CorruptError(
            f"values of one column have types that don't go together ({error}): give a schema", table=root, path=source
        ) from error
    days = {each.name: each.type for each in schema or () if pa.types.is_date(each.type)}
    rows, wrong = _cast(rows, {name: kind for name, kind in days.items() if name in rows.column_names})
    good = np.concatenate(kept)
    for place in sorted(wrong):
        refuse(int(good[place]), wrong[place])
    return Parsed(rows, tuple(sorted(bad, key=lambda each: each.position)))


def _failing(count: int, attempt: Callable[[int, int], object]) -> Iterator[tuple[int, str]]:
    """Yield the places of items that fail alone, with the error: all are tried together, then halves of what fails."""
    waiting = [(0, count)] if count else []
    while waiting:
        start, end = waiting.pop()
        try:
            attempt(start, end)
        except pa.ArrowInvalid as error:
            if end - start == 1:
                yield start, str(error)
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]


def _read_json(lines: Sequence[bytes], block: pa_json.ReadOptions, options: pa_json.ParseOptions) -> pa.Table:
    rows = pa_json.read_json(pa.BufferReader(b"\n".join(lines)), block, options)
    if rows.num_rows != len(lines):
        raise pa.ArrowInvalid("a line isn't one record")
    return rows


def _as_json_has_it(each: pa.Field) -> pa.Field:
    """Return a column as Arrow reads it from JSON; days and binary are text there."""
    if pa.types.is_date(each.type) or pa.types.is_binary(each.type):
        return pa.field(each.name, pa.string())
    return each.with_nullable(True)


def _csv(storage: Storage, file: FileInfo, schema: pa.Schema | None, csv: CsvOptions) -> Parsed:
    bad: list[BadRecord] = []

    def refuse(row: Any) -> str:
        wrong = f"{row.actual_columns} values, {row.expected_columns} are expected"
        bad.append(BadRecord(file.path, row.number or 0, row.text[:MOST_SHOWN], wrong))
        return "error" if len(bad) > MOST_BAD else "skip"

    names = [] if csv.header or schema is None else schema.names
    typed = {} if schema is None else dict.fromkeys(schema.names, pa.string())
    text = _text(storage, file)
    if csv.header and _begins_with_json(text):
        raise _damaged(storage, file, "its first line is a JSON object and names no columns; is its format json?")
    if _has_open_quote(text, csv.delimiter):
        raise _damaged(storage, file, "a quote in it is never closed, and takes in all that follows")
    try:
        rows = pa_csv.read_csv(
            pa.BufferReader(text),
            pa_csv.ReadOptions(
                use_threads=False, column_names=names or None, autogenerate_column_names=not csv.header and not names
            ),
            pa_csv.ParseOptions(delimiter=csv.delimiter, newlines_in_values=True, invalid_row_handler=refuse),
            pa_csv.ConvertOptions(column_types=typed, strings_can_be_null=True, null_values=["", "null", "NULL"]),
        )
    except pa.ArrowInvalid as error:
        check_count(bad, file.path, storage.root)
        raise _damaged(storage, file, error) from error
    _check_columns(rows, file, storage)
    if schema is None:
        return Parsed(rows, tuple(bad))
    good, wrong = _cast(rows, {each.name: each.type for each in schema if each.name in rows.column_names})
    check_count([*bad, *wrong], file.path, storage.root)
    bad += _refused_rows(rows, wrong, bad, file.path, first=2 if csv.header else 1)
    return Parsed(good, tuple(sorted(bad, key=lambda each: each.position)))


def _begins_with_json(text: bytes) -> bool:
    first = text.lstrip().partition(b"\n")[0]
    try:
        return first.startswith(b"{") and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _has_open_quote(text: bytes, delimiter: str) -> bool:
    """Return whether the text ends within quotes, which Arrow takes for the end of a value."""
    if text.count(b'"') % 2 == 0:
        return False
    begins = rb"(?:\A|(?<=[\r\n" + re.escape(delimiter).encode() + rb"]))"
    ends = [found[1] for found in re.finditer(begins + rb'"(?:[^"]+|"")*("?)', text)]
    return bool(ends) and not ends[-1]


def _check_columns(rows: pa.Table, file: FileInfo, storage: Storage) -> None:
    """Check that columns of a CSV file have names of their own, and that everything is UTF-8.

    Raises:
        CorruptError: something isn't UTF-8.
        SchemaError: two columns have one name.
    """
    try:
        names = rows.column_names
    except UnicodeDecodeError as error:
        raise _damaged(storage, file, f"the names of its columns aren't UTF-8: {error}") from error
    again = next((name for name, count in Counter(names).items() if count > 1), None)
    if again is not None:
        raise SchemaError(f"its header has column {again!r} more than once", table=storage.root, path=file.path)
    for each in rows.schema:
        if pa.types.is_binary(each.type):  # as Arrow has it that finds the types
            raise _damaged(storage, file, f"column {each.name!r} isn't UTF-8")


def _refused_rows(
    rows: pa.Table, wrong: Mapping[int, str], bad: Sequence[BadRecord], path: str, *, first: int
) -> list[BadRecord]:
    """Return rows with a value that is none of its column's type.

    Positions count all rows of the file, those too that were left out before.

    Args:
        rows: the rows.
        wrong: what is wrong, by place.
        bad: rows that were left out before.
        path: the file.
        first: the position of its first row.
    """
    found = []
    everything = np.arange(first, first + rows.num_rows + len(bad))
    positions = np.setdiff1d(everything, [each.position for each in bad])
    for place in sorted(wrong):
        values = {name: rows[name][place].as_py() for name in rows.column_names}
        record = json.dumps(values, ensure_ascii=False, default=str)
        found.append(BadRecord(path, int(positions[place]), record[:MOST_SHOWN], wrong[place]))
    return found


def _cast(rows: pa.Table, kinds: Mapping[str, pa.DataType]) -> tuple[pa.Table, dict[int, str]]:
    """Return rows with columns in other types, and what is wrong with those that are left out, by their places."""
    wrong: dict[int, str] = {}
    for name, kind in kinds.items():
        for place, error in _refused(rows[name], kind):
            wrong.setdefault(place, f"column {name!r}: {error[:500]}")
    if len(wrong) > MOST_BAD:  # the file is refused
        return rows, wrong
    if wrong:
        good = np.ones(rows.num_rows, dtype=bool)
        good[list(wrong)] = False
        rows = rows.filter(pa.array(good))
    for name, kind in kinds.items():
        rows = rows.set_column(rows.column_names.index(name), name, rows[name].cast(kind))
    return rows, wrong


def _refused(column: pa.ChunkedArray, kind: pa.DataType) -> Iterator[tuple[int, str]]:
    """Return the places of values that can't be cast, with the errors; one more than may be, at most."""
    failing = _failing(len(column), lambda start, end: pc.cast(column.slice(start, end - start), kind))
    return islice(failing, MOST_BAD + 1)


def together(parsed: Sequence[Parsed], names: Sequence[str], root: str) -> pa.Table:
    """Return the records of several files as one table; a column that some lack is null there.

    Raises:
        SchemaError: a column has types that don't go together; names the file.
    """
    whole = parsed[0].rows
    for each, name in zip(parsed[1:], names[1:], strict=True):
        try:
            whole = pa.concat_tables([whole, each.rows], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"its columns don't go together with those of the files before ({error}): give a schema",
                table=root,
                path=name,
            ) from error
    return whole


def check_count(bad: Sequence[object], source: str, root: str) -> None:
    """Refuse a source with too many bad records; raises CorruptError."""
    if len(bad) > MOST_BAD:
        raise CorruptError(
            f"more than {MOST_BAD:,} of its records can't be read: it isn't of this format or schema",
            table=root,
            path=source,
        )


def _text(storage: Storage, file: FileInfo) -> bytes:
    """Read a file of text, which its name may say to be compressed."""
    content, codec = storage.read(file.path), _CODECS.get(file.path.rpartition(".")[2].lower())
    if codec is None:
        return content
    try:
        text: bytes = pa.CompressedInputStream(pa.BufferReader(content), codec).read()
    except (pa.ArrowException, OSError) as error:
        raise _damaged(storage, file, error) from error
    return text


def _damaged(storage: Storage, file: FileInfo, error: object) -> CorruptError:
    text = f"the file can't be read: {str(error)[:500]}"
    return CorruptError(text, table=storage.root, path=file.path)


PARSERS: Final[Mapping[str, Parser]] = {"parquet": _parquet, "json": _json, "csv": _csv, "avro": _avro, "orc": _orc}
"""Parsers of files by format."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The format of files, and how they are parsed; picklable.

    Attributes:
        name: a key of `PARSERS`.
        schema: columns to read texts as; others are found out.
        csv: how CSV files are written.
    """

    name: str
    schema: pa.Schema | None
    csv: CsvOptions

    def parsed(self, storage: Storage, file: FileInfo) -> Parsed:
        """Parse a file; errors as of its parser."""
        return PARSERS[self.name](storage, file, self.schema, self.csv)
