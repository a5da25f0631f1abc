"""A real Trino reads what pudi wrote, registered in a Hive Metastore by Hudi's sync tool, and Hudi's tables beside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pudi
from support.hive import serve_hive
from support.hudi import HudiTable
from support.layouts import Layout
from support.rows import META_FIELDS, Row, assert_same, from_arrow
from support.trino import Trino, new_java, serve_trino, unpacked
from support.trips import SCHEMA, table, trip

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow, pytest.mark.metadata_by_default]

VERSIONS = (6, 8, 9)
KINDS = ("cow", "mor")
FOLDERS = ("plain", "hive", "flat")

BASE = table([trip(number, 100) for number in range(30)])
CHANGED = table([*(trip(number, 200, "changed") for number in range(10, 15)), trip(40, 200)])
GONE = table([trip(number, 300) for number in range(3)])


@pytest.fixture(scope="module")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    java = new_java()
    if java is None:
        pytest.skip("Trino needs Java 24 or later: point PUDI_TRINO_JAVA_HOME at one")
    server = unpacked()
    if server is None:
        pytest.skip("neither Maven Central nor mvn's repository has Trino's server")
    with (
        serve_hive(tmp_path_factory.mktemp("hive")) as metastore,
        serve_trino(java, server, tmp_path_factory.mktemp("trino"), metastore) as running,
    ):
        yield running


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("folders", FOLDERS)
@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "listed"])
def test_pudis_tables(
    spark: Any, trino: Trino, tmp_path: Path, version: int, kind: str, folders: str, metadata: bool
) -> None:
    layout = Layout("simple", folders, "event", version, kind)
    name = f"pudi_{kind}_{folders}_{version}_{metadata}".lower()
    arguments = layout.create_arguments()
    arguments["options"] = {**arguments["options"], "hoodie.metadata.enable": str(metadata).lower()}
    made = pudi.create(str(tmp_path / name), SCHEMA, **arguments)

    def check(when: str) -> None:
        trino.register(spark, tmp_path / name, name, layout.partition_fields)
        expected = from_arrow(pudi.Table(made.path).scan(read_optimized=True, meta_fields=True).to_arrow())
        assert_same(trino.rows(name), expected, about=f"Trino against pudi's read-optimised scan, {when}")

    made.bulk_insert(BASE)
    check("after a bulk insert")
    made.upsert(CHANGED)
    made.delete(GONE)
    check("after an upsert and a delete")
    if kind == "mor":
        made.compact()
        assert_same(trino.rows(name), from_arrow(made.scan(meta_fields=True).to_arrow()), about="after a compaction")
    made.cluster()
    made.clean(options={"hoodie.clean.commits.retained": "1"})
    check("after clustering and a clean")
    if kind == "mor" or version == 6:
        return
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    for ts in range(400, 405):
        made.upsert(table([trip(1, ts)]), options=few)
    made.clean(options=few)
    made.archive(options=few)
    assert any((tmp_path / name / ".hoodie" / "timeline" / "history").iterdir())
    with pytest.raises(RuntimeError, match="does not support Parquet file reader"):  # the archive's files are Parquet
        trino.rows(name)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_hudis_tables_beside(spark: Any, trino: Trino, tmp_path: Path, version: int, kind: str) -> None:
    """The control: a table of the same kind by Hudi gives the same rows in Trino, and no more."""
    layout = Layout("simple", "plain", "event", version, kind)
    name = f"hudi_{kind}_{version}"
    hudi = HudiTable(spark, tmp_path / name, layout.hudi_options(name))
    for verb, data in (("bulk_insert", BASE), ("upsert", CHANGED), ("delete", GONE)):
        hudi.write(verb, data)
    trino.register(spark, tmp_path / name, name, layout.partition_fields)
    history = tmp_path / name / ".hoodie" / "timeline" / "history"
    if version > 6:
        # On a disk (an object store has no empty folders) Trino fails until something is archived; pudi makes no
        # such folder before it's needed.
        with pytest.raises(RuntimeError, match="Could not load archived commit timeline"):
            trino.rows(name)
        history.rmdir()
    optimised: list[Row] = from_arrow(pudi.Table(str(hudi.path)).scan(read_optimized=True).to_arrow())
    assert_same(trino.rows(name), optimised, META_FIELDS, "Trino against a read-optimised scan of Hudi's table")
