"""HFile base files are read as Parquet ones are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from pudi.errors import CorruptError
from pudi.filegroup import BaseFile, HFileBaseReader
from pudi.format import BaseFileName
from pudi.format.hfile_write import encode_hfile
from pudi.storage import open_storage


@pytest.mark.parametrize("schema", ["", "[]", '{"type": "record"}', '{"type": "record", "name": "t", "fields": 1}'])
@pytest.mark.parametrize("ask", [lambda file: file.schema, lambda file: file.read(), lambda file: file.read(["a"])])
def test_a_schema_that_is_none_is_told_with_the_file(
    tmp_path: Path, schema: str, ask: Callable[[HFileBaseReader], object]
) -> None:
    name = BaseFileName("f-0", "0-0-0", "20240101000000000", "hfile")
    content = encode_hfile(pa.array([b"k"]), pa.array([b"\0"]), avro_schema=schema)
    (tmp_path / name.name).write_bytes(content)
    with pytest.raises(CorruptError, match=r"schema|record") as raised:
        ask(HFileBaseReader(open_storage(str(tmp_path)), BaseFile("", name, len(content))))
    assert raised.value.path == name.name
