"""Files of records on Spark: a lazy frame, and the records that are none apart from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from pudi.context import FileInfo, Storage
from pudi.engine.spark.hadoop import hadoop_options, hadoop_root
from pudi.engine.spark.session import functions, spark_errors
from pudi.errors import CorruptError, NotSupportedError
from pudi.ingest.parsing import MOST_BAD, MOST_SHOWN, CsvOptions, check_count
from pudi.ingest.source import BadRecord
from pudi.schema.spark_types import arrow_to_spark_ddl, quote

_CORRUPT: Final = "_pudi_corrupt_record"
_FILE: Final = "_pudi_file"
TEXT_FORMATS: Final = frozenset({"json", "csv"})
"""Formats whose records can be bad one by one."""
_MOST_WITHOUT_KEY: Final = 100_000
"""Records without a key that the driver takes."""
_MOST_SEARCHED: Final = 64 << 20
"""Bytes of a file in which this process looks for the lines of bad records."""


def frame_of(
    storage: Storage,
    files: Sequence[FileInfo],
    format: str,
    schema: pa.Schema | None,
    csv: CsvOptions,
    spark: Any,
    mode: str = "FAILFAST",
) -> Any:
    """Return the records of files as a lazy frame.

    Args:
        storage: where the files are.
        files: the files.
        format: their format.
        schema: columns to read texts as; None to find them out.
        csv: how CSV files are written.
        spark: the session.
        mode: what Spark does about bad records; with PERMISSIVE the frame has them, with their text in a column.

    Raises:
        NotSupportedError: Spark can't read them.
        CorruptError: without a schema, one of their records can't be parsed.
    """
    root = hadoop_root(storage)
    if root is None or format == "avro":
        what = "Avro files" if root is not None else "files of this storage"
        raise NotSupportedError(f"Spark can't read {what}: ingest without spark", table=storage.root)
    with spark_errors(storage.root, "looking at the files"):
        return _frame_of(
            spark, hadoop_options(storage), [f"{root}/{each.path}" for each in files], format, schema, csv, mode
        )


def _frame_of(
    spark: Any,
    options: Mapping[str, str],
    paths: Sequence[str],
    format: str,
    schema: pa.Schema | None,
    csv: CsvOptions,
    mode: str,
) -> Any:
    reader = spark.read.options(**options).format(format)
    if format == "csv":
        reader = reader.options(header=csv.header, sep=csv.delimiter)
    if format not in TEXT_FORMATS:
        return reader.load(paths)
    reader = reader.option("mode", mode).option("columnNameOfCorruptRecord", _CORRUPT)
    if schema is None and (format == "csv" or mode == "PERMISSIVE"):
        reader = reader.option("inferSchema", "true")
    if mode != "PERMISSIVE":
        return (reader if schema is None else reader.schema(arrow_to_spark_ddl(schema))).load(paths)
    if schema is not None:
        return reader.schema(f"{arrow_to_spark_ddl(schema)}, `{_CORRUPT}` STRING").load(paths)
    return reader.schema(reader.load(paths).drop(_CORRUPT).schema.add(_CORRUPT, "string")).load(paths)


def with_bad_apart(
    storage: Storage, files: Sequence[FileInfo], format: str, schema: pa.Schema | None, csv: CsvOptions, spark: Any
) -> tuple[Any, tuple[BadRecord, ...], Callable[[], object]]:
    """Return the records of texts as a frame, the bad ones, and a function to call when all is done.

    The session keeps the records meanwhile: Spark finds records bad only by the columns that a query reads.

    Raises:
        CorruptError: too many records of one file are bad.
        NotSupportedError: Spark can't read the files.
    """
    functions_ = functions(spark)
    whole = frame_of(storage, files, format, schema, csv, spark, "PERMISSIVE")
    whole = whole.withColumn(_FILE, functions_.col("_metadata.file_path")).persist()
    try:
        found = whole.where(functions_.col(_CORRUPT).isNotNull()).select(_FILE, _CORRUPT)
        by_file: dict[str, list[str]] = defaultdict(list)
        for name, text in found.limit(MOST_BAD * len(files) + 1).collect():
            by_file[_path_of(name, files)].append(text)
        sizes, bad = {each.path: each.size for each in files}, list[BadRecord]()
        for path, texts in sorted(by_file.items()):
            check_count(texts, path, storage.root)
            bad += _placed(storage, path, sizes.get(path, 0), texts, format)
    except BaseException:
        whole.unpersist()
        raise
    good = whole.where(functions_.col(_CORRUPT).isNull()).drop(_CORRUPT, _FILE)
    return good, tuple(bad), whole.unpersist


def without_keys(data: Any, keys: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the records of a frame that have a key, and the others as JSON texts.

    Args:
        data: the records.
        keys: the key's columns; a key is null if all of them are.

    Raises:
        CorruptError: too many have none.
    """
    functions_ = functions(data)
    lost = reduce(lambda one, more: one & more, (functions_.col(quote(name)).isNull() for name in keys))
    as_text = functions_.to_json(functions_.struct("*"), {"ignoreNullFields": "false"})
    found = sorted(text for (text,) in data.where(lost).select(as_text).limit(_MOST_WITHOUT_KEY + 1).collect())
    if len(found) > _MOST_WITHOUT_KEY:
        raise CorruptError(
            f"more than {_MOST_WITHOUT_KEY:,} records have no record key ({', '.join(keys)}): it isn't one of these"
        )
    return (data.where(~lost), found) if found else (data, found)


def _path_of(uri: str, files: Sequence[FileInfo]) -> str:
    """Return the path of the file that Spark names by a URI."""
    name = unquote(uri)
    return max((each.path for each in files if name.endswith(f"/{each.path}")), key=len, default=name)


def _placed(storage: Storage, path: str, size: int, texts: Sequence[str], format: str) -> list[BadRecord]:
    """Return bad records with the numbers of their lines, which Spark doesn't say.

    Records that aren't a line of the file as it is (of a compressed one, or with line breaks), and those of files that
    are too large to search here, get numbers from -1 down.
    """
    wanted = {text.encode() for text in texts}
    lines: dict[bytes, list[int]] = defaultdict(list)
    content = storage.read(path) if size <= _MOST_SEARCHED else b""
    for number, line in enumerate(content.split(b"\n"), 1):  # only in files with bad records
        if (stripped := line.rstrip(b"\r")) in wanted:
            lines[stripped].append(number)
    found, unknown = [], 0
    why = f"Spark can't read it as {format.upper()} with the columns that are expected"
    for text in sorted(texts):
        places = lines[text.encode()]
        unknown -= not places
        found.append(BadRecord(path, places.pop(0) if places else unknown, text[:MOST_SHOWN], why))
    return sorted(found, key=lambda each: each.position)
