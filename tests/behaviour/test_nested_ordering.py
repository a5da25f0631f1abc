"""Tables whose records are ordered by a field of a struct are refused by name, where Hudi would merge by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("a", pa.struct([("b", pa.int64())]))])
REFUSED = r"hoodie\.table\.ordering\.fields=a\.b"


def _rows(ts: int) -> pa.Table:
    return pa.table({"id": [1, 2], "ts": [ts, ts], "a": [{"b": ts}, {"b": ts}]}, SCHEMA)


def _made(path: Path, kind: str, version: int = 9) -> pudi.Table:
    """A table with an update, whose properties then name the field as Hudi's do."""
    options = {"hoodie.write.table.version": str(version)}
    made = pudi.create(path, SCHEMA, record_key="id", ordering="ts", table_type=kind, options=options)
    made.upsert(_rows(5))
    made.upsert(_rows(7))
    properties = path / ".hoodie" / "hoodie.properties"
    text = properties.read_text("utf-8")
    for key in ("hoodie.table.ordering.fields", "hoodie.table.precombine.field"):
        text = text.replace(f"{key}=ts\n", f"{key}=a.b\n")
    properties.write_text(text, "utf-8")
    return pudi.Table(path)


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_no_verb_writes_and_nothing_is_merged(tmp_path: Path, kind: str, version: int) -> None:
    table = _made(tmp_path / "t", kind, version)
    before = sorted(path for path in (tmp_path / "t").rglob("*") if path.is_file())
    writes = [
        lambda: table.upsert(_rows(1)),
        lambda: table.insert(_rows(1)),
        lambda: table.bulk_insert(_rows(1)),
        lambda: table.delete(where="id = 1"),
        lambda: table.update({"ts": "9"}, where="id = 1"),
        lambda: table.insert_overwrite_table(_rows(1)),
        table.cluster,
        lambda: table.add_column("n", pa.int64()),
    ]
    for write in writes:
        with pytest.raises(pudi.NotSupportedError, match=REFUSED):
            write()
    if kind == "mor":
        for read in (lambda: table.scan().to_arrow(), table.compact, lambda: table.changes().to_arrow()):
            with pytest.raises(pudi.NotSupportedError, match=REFUSED):
                read()
    assert sorted(path for path in (tmp_path / "t").rglob("*") if path.is_file()) == before
    found = table.scan(columns=["ts"], read_optimized=True).to_arrow()
    assert found["ts"].to_pylist() == ([7, 7] if kind == "cow" else [5, 5])


@pytest.mark.spark
def test_spark_merges_nothing_either(spark: Any, tmp_path: Path) -> None:
    table = _made(tmp_path / "t", "mor")
    with pytest.raises(pudi.NotSupportedError, match=REFUSED):
        table.scan().to_spark(spark).collect()


def test_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(pudi.NotSupportedError, match=r"'a\.b', a field of a struct"):
        pudi.create(tmp_path / "t", SCHEMA, record_key="id", ordering="a.b")
    assert not (tmp_path / "t").exists()
