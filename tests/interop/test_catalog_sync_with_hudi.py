"""pudi registers in a real Hive Metastore what Hudi's tool registers, and each goes on with the other's entries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.catalogs import Catalog, CatalogTable, TableName, open_catalog
from support.hive import serve_hive
from support.hive_sync import SYNC, sync_by_hudi

pytest.importorskip("thrift")

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.metadata_by_default]

SCHEMA = pa.schema(
    [("id", pa.int64()), ("region", pa.string()), ("at", pa.timestamp("us", "UTC")), ("fare", pa.decimal128(9, 2))]
)
METASTORES = {"transient_lastDdlTime", "numFiles", "totalSize"}
"""Properties that the metastore adds."""
EXTRACTOR = {f"{SYNC}partition_extractor_class": "org.apache.hudi.hive.MultiPartKeysValueExtractor"}


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_hive(tmp_path_factory.mktemp("hive")) as served:
        yield served


@pytest.fixture
def catalog(metastore: str) -> Iterator[Catalog]:
    with open_catalog("hive", metastore.removeprefix("thrift://")) as opened:
        yield opened


def rows(*regions: str | None, first: int = 0) -> pa.Table:
    count = len(regions)
    ids = list(range(first, first + count))
    columns = {"id": ids, "region": regions, "at": [0] * count, "fare": [None] * count}
    return pa.table({name: pa.array(columns[name], SCHEMA.field(name).type) for name in SCHEMA.names}, schema=SCHEMA)


def entries(catalog: Catalog, database: str) -> dict[str, Any]:
    """All that a database holds, but for its name and what the metastore adds."""
    names = catalog.table_names(database)
    return {name: entry(catalog, table) for name, table in catalog.tables(database, names).items()}


def entry(catalog: Catalog, table: CatalogTable) -> Any:
    properties = {key: value for key, value in table.properties.items() if key not in METASTORES}
    partitions = sorted((each.values, each.location) for each in catalog.partitions(table))
    form, columns = table.format, (table.columns, table.partition_columns)
    serde = dict(form.serde_properties)
    return (table.location, columns, form.input_format, form.output_format, serde, properties, table.kind, partitions)


def create(path: Path, kind: str, version: int, hive_style: bool) -> pudi.Table:
    options = {
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.hive_style_partitioning": str(hive_style).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    return pudi.create(str(path), SCHEMA, record_key="id", partition_by="region", table_type=kind, options=options)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("hive_style", [True, False], ids=["named", "plain"])
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_both_register_the_same_and_go_on(
    spark: Any, metastore: str, catalog: Catalog, tmp_path: Path, kind: str, version: int, hive_style: bool
) -> None:
    table = create(tmp_path / "t", kind, version, hive_style)
    label = f"{kind}{version}{'n' if hive_style else 'p'}"
    ours, theirs = f"ours_{label}", f"theirs_{label}"
    options = {f"{SYNC}partition_fields": "region", f"{SYNC}table": "trips", **EXTRACTOR}
    base = {"hoodie.datasource.meta.sync.base.path": f"file:{tmp_path / 't'}"}

    def sync(*, swapped: bool) -> None:
        by_hudi, by_pudi = (ours, theirs) if swapped else (theirs, ours)
        sync_by_hudi(spark, metastore, tmp_path / "t", {**options, f"{SYNC}database": by_hudi})
        table.sync(catalog, f"{by_pudi}.trips", options={**options, **base})

    table.insert(rows("eu", "asia pac", "a=b", None))
    sync(swapped=False)
    assert entries(catalog, ours) == entries(catalog, theirs)
    assert set(entries(catalog, ours)) == ({"trips"} if kind == "cow" else {"trips", "trips_ro", "trips_rt"})

    table.insert(rows("us", first=10))
    table.delete_partitions([next(each for each in table.partitions() if "asia" in each)])
    table.add_column("tip", "double")
    sync(swapped=True)
    assert entries(catalog, ours) == entries(catalog, theirs)

    table.upsert(rows("eu"), options={"hoodie.write.set.null.for.missing.columns": "true"})
    table.delete_partitions([next(each for each in table.partitions() if "us" in each)])
    sync(swapped=False)
    assert entries(catalog, ours) == entries(catalog, theirs)
    assert len(catalog.partitions(found(catalog, ours))) == 3


def found(catalog: Catalog, database: str) -> CatalogTable:
    table = catalog.table(TableName(database, "trips"))
    assert table is not None
    return table


def test_columns_that_a_metastore_does_not_take_are_said(metastore: str, catalog: Catalog, tmp_path: Path) -> None:
    table = pudi.create(
        str(tmp_path / "t"), {"id": "long", "place": "struct<x: double>", "v": "string"}, record_key="id"
    )
    table.sync(catalog, "evolve.trips")
    before = entries(catalog, "evolve")
    table.add_column("place.y", "double")
    with pytest.raises(pudi.RefusedError, match=r"evolve\.trips.*incompatible.*drop evolve\.trips there"):
        table.sync(catalog, "evolve.trips")
    assert entries(catalog, "evolve") == before
    done = table.sync(catalog, "evolve.trips", options={f"{SYNC}recreate_table_on_error": "true"})
    assert done.tables[0].created
    columns = {each.name: each.type for each in found(catalog, "evolve").columns}
    assert columns["place"] == "struct<x:double,y:double>"


@pytest.mark.parametrize("place", ["manifest", "manifest:absolute"])
def test_a_manifest_is_hudis(spark: Any, tmp_path: Path, place: str) -> None:
    table = create(tmp_path / "t", "cow", 9, True)
    table.insert(rows("eu", "asia pac"))
    table.upsert(rows("eu"))
    done = table.sync(place)
    written = Path(done.catalog.removeprefix("file:"))
    ours = sorted(written.read_text().splitlines())
    jvm = spark._jvm
    hadoop = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(
        spark.sparkContext._jsc.hadoopConfiguration()
    )
    client = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder().setConf(hadoop)
    writer = jvm.org.apache.hudi.sync.common.util.ManifestFileWriter.builder()
    opened = client.setBasePath(table.path).build()
    writer.setMetaClient(opened).build().writeManifestFile(place == "manifest:absolute")
    assert sorted(written.read_text().splitlines()) == ours


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_option_map_of_a_job_registers_alike(
    spark: Any, metastore: str, catalog: Catalog, tmp_path: Path, kind: str
) -> None:
    from pudi.spark import write

    table = kind.partition("_")[0].lower()
    frame = spark.createDataFrame([(1, "a", "x", 7), (2, "b", "y z", 8)], "id long, name string, region string, hh int")

    def options(who: str) -> dict[str, str]:
        return {
            "hoodie.table.name": table,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "region,hh",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.table.type": kind,
            "hoodie.embed.timeline.server": "false",
            f"{SYNC}enable": "true",
            f"{SYNC}mode": "hms",
            f"{SYNC}metastore.uris": metastore,
            f"{SYNC}database": f"{who}_{table}",
            f"{SYNC}partition_extractor_class": "org.apache.hudi.hive.MultiPartKeysValueExtractor",
        }

    frame.write.format("hudi").options(**options("hudi")).mode("append").save(str(tmp_path / "hudi"))
    done = write(frame).format("hudi").options(**options("pudi")).mode("append").save(str(tmp_path / "pudi"))
    assert done is not None
    assert not done.failed_services
    times = {"last_commit_time_sync", "last_commit_completion_time_sync"}

    def neutral(who: str) -> str:
        found = entries(catalog, f"{who}_{table}")
        assert found
        assert all(times <= each[5].keys() for each in found.values())
        plain = {
            name: [
                part if not isinstance(part, dict) else {k: v for k, v in part.items() if k not in times} for part in e
            ]
            for name, e in found.items()
        }
        return str(plain).replace(str(tmp_path / who), "ROOT")

    assert neutral("pudi") == neutral("hudi")
