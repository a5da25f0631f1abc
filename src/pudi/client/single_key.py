"""Find out from stored keys whether a complex key of one column has the column's name.

Below version 9 no property states it: Hudi 0.14.1 to 1.0.2 left the name out, releases before and after write it
(`hoodie.write.complex.keygen.new.encoding`). Mixing both would make every record a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pudi.client.changed_groups import key_reading
from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.config import WriteOptions
from pudi.errors import InvalidArgumentError, NotSupportedError, SchemaError
from pudi.filegroup import BaseFile, FileSlice, open_base_file
from pudi.record import column_of, key_text
from pudi.schema import RECORD_KEY

_OPTION = WriteOptions.complex_keygen_new_encoding
_SINCE = 9
"""Table version from which the name is always there (KeyGenUtils.encodeSingleKeyFieldNameForComplexKeyGen)."""


def names_single_key(snapshot: TableSnapshot) -> bool:
    """Return whether complex record keys of one column are `column:value`; True for tables without such keys.

    Args:
        snapshot: the table; the writer's options decide if it has no records, and must not contradict stored keys.

    Raises:
        InvalidArgumentError: the option contradicts the table's keys.
        NotSupportedError: the table has keys of both kinds, or of neither.
    """
    config = snapshot.config
    single = config.key_generator_type.startswith("COMPLEX") and len(config.record_key_fields) == 1
    if not single or config.version >= _SINCE or not config.populate_meta_fields:  # then no file holds them
        return True
    given = snapshot.options[_OPTION]
    found = _found(snapshot, list(snapshot.view().all_slices()), config.record_key_fields[0])
    if len(found) > 1:
        raise NotSupportedError(
            f"the table has record keys with and without the name of {config.record_key_fields[0]!r} before the value, "
            "so that records may be there twice; repair it with Apache Hudi",
            table=snapshot.table,
        )
    if not found:
        return not given
    named = found.pop()
    if given is not None and given is named:
        how = "with" if named else "without"
        raise InvalidArgumentError(
            f"option {_OPTION}={str(given).lower()} contradicts the table, whose keys are {how} the column's name",
            table=snapshot.table,
        )
    return named


def _found(snapshot: TableSnapshot, slices: Sequence[FileSlice], name: str) -> set[bool]:
    """Return whether keys have the name, by the oldest and newest base file with records, else by log files."""
    by_age = sorted((s.base for s in slices if s.base is not None), key=lambda base: base.instant)
    oldest = next(_in_base_files(snapshot.meta, by_age, name), None)
    if oldest is not None:
        return {oldest, next(_in_base_files(snapshot.meta, reversed(by_age), name))}
    return set(next(_in_log_files(snapshot, slices, name), ()))


def _in_base_files(meta: MetaClient, files: Iterable[BaseFile], name: str) -> Iterator[bool]:
    """Yield for each base file with records whether its first key has the name."""
    column = name.split(".", 1)[0]
    for file in files:
        reader = open_base_file(meta.storage, file)
        group = next((each for each in range(reader.num_groups) if reader.group_rows(each)), None)
        if group is None:
            continue
        try:
            rows = reader.read([RECORD_KEY, column], [group]).slice(0, 1)
            key, text = rows[RECORD_KEY][0].as_py(), key_text(column_of(rows, name), name, partition=False)[0].as_py()
        except (KeyError, SchemaError) as error:
            raise reader.corrupt(f"no keys by which to tell how {name!r} makes them") from error
        if key not in {text, f"{name}:{text}"}:
            raise NotSupportedError(
                f"record key {key!r} is not made of column {name!r} as key generator COMPLEX does it",
                table=meta.storage.root,
                path=file.path,
            )
        yield bool(key != text)


def _in_log_files(snapshot: TableSnapshot, slices: Iterable[FileSlice], name: str) -> Iterator[frozenset[bool]]:
    """Yield for each slice that has records in its log files alone whether keys begin with the name."""
    if not snapshot.meta.merges_on_read:
        return
    reading = key_reading(snapshot)
    for file_slice in slices:
        keys = reading.keys(snapshot.meta.storage, file_slice) if file_slice.logs else pa.array([], pa.string())
        if len(keys):
            yield frozenset(pc.starts_with(keys, f"{name}:").unique().to_pylist())
