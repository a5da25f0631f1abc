"""Damaged small files (archive, older schemas, rings): the right answer, or a typed error that names the file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from support.archiving import archive

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
FOLDERS = {"hoodie.metadata.enable": "false"}


def rows(value: str, ts: int, *keys: int) -> pa.Table:
    data = [{"k": k, "p": "pq"[k % 2], "ts": ts, "v": value} for k in keys]
    return pa.Table.from_pylist(data, schema=SCHEMA)


def make(path: Path, kind: str, **options: str) -> pudi.Table:
    given = {name.replace("_", "."): value for name, value in options.items()}
    table = pudi.create(
        str(path), SCHEMA, record_key="k", partition_by="p", ordering="ts", table_type=kind, options=given
    )
    table.upsert(rows("a", 1, *range(8)))
    return table


def damages(content: bytes) -> Iterator[tuple[str, bytes | None]]:
    yield "one byte less", content[:-1]
    yield "half", content[: len(content) // 2]
    yield "nothing", b""
    yield "fifteen bytes more", content + b"\xff" * 15
    yield "deleted", None
    for part in range(5):
        place = part * (len(content) - 1) // 4
        for bit in (1, 0x80):
            yield (
                f"bit {bit} of byte {place}",
                content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :],
            )


def told(table: pudi.Table, **asked: object) -> set[tuple[int, str]]:
    found = table.scan(**asked).to_arrow()  # type: ignore[arg-type]
    return set(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


def changed(table: pudi.Table, since: str) -> set[tuple[int, str]]:
    found = table.changes(since).to_arrow()
    return set(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


def right_or_named(run: Callable[[], object], right: object, name: str, what: str) -> bool:
    """Whether an error named the file; what's wrong in any other way fails the test."""
    try:
        found = run()
    except pudi.PudiError as error:
        assert name in str(error), f"{what}: {error}"
        assert not error.retryable, f"{what}: {error}"
        return True
    assert found == right, what
    return False


@pytest.mark.parametrize("version", [6, 9])
def test_older_schemas(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    table = make(path, "mor", **{"hoodie_write_table_version": str(version)})
    table.rename_column("v", "w")
    table.rename_column("w", "v")
    table.upsert(rows("b", 2, 0, 1))
    right = {verb: run(pudi.Table(str(path))) for verb, run in READS.items()}
    file = max(each for each in (path / ".hoodie" / ".schema").iterdir() if each.stat().st_size)
    content = file.read_bytes()
    refused = 0
    for what, damaged in damages(content):
        if damaged is None or what.startswith("bit 1 "):
            continue  # the one before it says as much; and what is spelled wrong in JSON may be JSON
        file.write_bytes(damaged)
        for verb, run in READS.items():
            refused += right_or_named(lambda run=run: run(pudi.Table(str(path))), right[verb], file.name, what)  # type: ignore[misc]
        if not damaged:
            with pytest.raises(pudi.CorruptError, match=file.name):
                pudi.Table(str(path)).upsert(rows("c", 3, 2))
    assert refused > 3 * len(READS)


READS: dict[str, Callable[[pudi.Table], object]] = {
    "scan": told,
    "time travel": lambda table: told(table, as_of=table.timeline.instants[-1].requested),
    "changes": lambda table: table.changes().to_arrow().num_rows,
}


@pytest.mark.parametrize("name", ["_version_", "manifest_2"])
def test_manifests_of_the_archive(tmp_path: Path, name: str) -> None:
    made = make(tmp_path / "whole", "mor", **{"hoodie_metadata_enable": "false"})
    since = made.upsert(rows("b", 2, 0)).instant
    for number in range(3):
        made.upsert(rows(f"c{number}", 3 + number, number + 1))
    archive(tmp_path / "whole", 4, 2)
    right = changed(pudi.Table(str(tmp_path / "whole")), since)
    assert right == {(0, "b"), (1, "c0"), (2, "c1"), (3, "c2")}
    content = (tmp_path / "whole" / ".hoodie" / "timeline" / "history" / name).read_bytes()
    older = b"1" if name == "_version_" else None
    for number, (what, damaged) in enumerate([*damages(content), ("older", older)]):
        path = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", path)
        file = path / ".hoodie" / "timeline" / "history" / name
        if damaged is None:
            file.unlink()
        else:
            file.write_bytes(damaged)
        refused = right_or_named(lambda path=path: changed(pudi.Table(str(path)), since), right, name, what)  # type: ignore[misc]
        table = pudi.Table(str(path), options=FOLDERS)
        right_or_named(lambda table=table: (table.compact(), len(told(table)))[1], 8, name, what)  # type: ignore[misc]
        assert not (refused and name == "_version_"), "the manifests are there"
    assert told(pudi.Table(str(tmp_path / "whole"), options=FOLDERS))


def test_a_file_of_the_archive_that_is_gone(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "mor", **{"hoodie_metadata_enable": "false"})
    since = table.upsert(rows("b", 2, 0)).instant
    table.upsert(rows("c", 3, 1))
    archive(tmp_path / "t", 2, 1)
    file = min((tmp_path / "t" / ".hoodie" / "timeline" / "history").glob("*.parquet"))
    file.unlink()
    with pytest.raises(pudi.CorruptError, match=file.name):
        changed(pudi.Table(str(tmp_path / "t")), since)


def test_rings(tmp_path: Path) -> None:
    options = {
        "hoodie_index_type": "BUCKET",
        "hoodie_index_bucket_engine": "CONSISTENT_HASHING",
        "hoodie_bucket_index_num_buckets": "4",
    }
    table = make(tmp_path / "whole", "mor", **options)
    overwritten = table.insert_overwrite(rows("b", 2, 0, 2, 4))
    assert overwritten is not None
    rings = (tmp_path / "whole" / ".hoodie" / ".bucket_index" / "consistent_hashing_metadata").rglob("*.hashing_meta")
    refused = 0
    for file in sorted(rings):
        name = str(file.relative_to(tmp_path / "whole"))
        for what, damaged in damages(file.read_bytes()):
            path = tmp_path / "t"
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(tmp_path / "whole", path)
            if damaged is None:
                (path / name).unlink()
            else:
                (path / name).write_bytes(damaged)
            right = (told(pudi.Table(str(path))) - {(0, "b"), (1, "a")}) | {(0, "z"), (1, "z")}
            done = pudi.Table(str(path))
            told_by = file.parent.name if damaged is None else file.name
            refused += right_or_named(
                lambda done=done: (done.upsert(rows("z", 9, 0, 1)), told(done))[1],  # type: ignore[misc]
                right,
                told_by,
                f"{name}: {what}",
            )
    assert refused > 5


def test_the_schema_of_a_block_in_the_metadata_table(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "cow", **{"hoodie_metadata_enable": "true"})
    table.upsert(rows("b", 2, 0))
    right = told(table)
    log = max((tmp_path / "t" / ".hoodie" / "metadata" / "files").glob(".*.log.*"), key=lambda f: f.name)
    content = log.read_bytes()
    log.write_bytes(content.replace(b'"HoodieMetadataRecord"', b'!HoodieMetadataRecord"', 1))
    assert log.read_bytes() != content
    with pytest.warns(UserWarning, match=log.name):
        assert told(pudi.Table(str(tmp_path / "t"))) == right
    with pytest.warns(UserWarning, match=log.name), pytest.raises(pudi.CorruptError, match=log.name) as caught:
        pudi.Table(str(tmp_path / "t")).upsert(rows("c", 3, 0, 1))
    assert "None" not in str(caught.value)


@pytest.mark.parametrize("version", [6, 9])
def test_the_schema_in_a_commit(tmp_path: Path, version: int) -> None:
    made = make(tmp_path / "t", "mor", hoodie_write_table_version=str(version))
    done = made.upsert(rows("b", 2, 0))
    found = (tmp_path / "t" / ".hoodie").rglob(f"{done.instant}*.deltacommit")
    (file,) = (each for each in found if "metadata" not in each.parts)
    content = file.read_bytes()
    for damaged in (content.replace(b"record", b"recoxd"), content.replace(b"fields", b"fielxs")):
        assert damaged != content
        file.write_bytes(damaged)
        table = pudi.Table(str(tmp_path / "t"))
        verbs: list[Callable[[], object]] = [
            lambda table=table: told(table),  # type: ignore[misc]
            lambda table=table: table.upsert(rows("c", 3, 1)),  # type: ignore[misc]
            lambda table=table: table.delete(rows("c", 3, 1)),  # type: ignore[misc]
            table.compact,
        ]
        for verb in verbs:
            with pytest.raises(pudi.CorruptError, match=file.name):
                verb()
