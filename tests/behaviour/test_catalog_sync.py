"""A table is registered in a catalog, and what changed since the last time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.catalogs import CatalogColumn, CatalogPartition, CatalogTable, SyncedTable, TableName
from pudi.catalogs.sqlite import SqliteCatalog
from pudi.engine.local.engine import LocalEngine
from pudi.statement import local

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float32())])
SYNC = "hoodie.datasource.hive_sync."


class Counting(SqliteCatalog):
    """A catalog that notes its requests, and fails where a test says so."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.calls: list[str] = []
        self.asked: list[int] = []
        self.failing: set[str] = set()

    def _note(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failing:
            raise pudi.UnavailableError(f"{self} fails in {name}")

    def has_database(self, name: str) -> bool:
        self._note("has_database")
        return super().has_database(name)

    def tables(self, database: str, names: Sequence[str]) -> dict[str, CatalogTable]:
        self._note("tables")
        return super().tables(database, names)

    def alter_table(self, table: CatalogTable, *, cascade: bool = False) -> None:
        self._note("alter_table")
        super().alter_table(table, cascade=cascade)

    def partitions(self, table: CatalogTable, values: Any = None) -> list[CatalogPartition]:
        self._note("partitions")
        self.asked.append(-1 if values is None else len(values))
        return super().partitions(table, values)

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        self._note("add_partitions")
        super().add_partitions(table, partitions)

    def drop_partitions(self, table: CatalogTable, values: Any) -> None:
        self._note("drop_partitions")
        super().drop_partitions(table, values)


def rows(*cities: str, first: int = 0) -> pa.Table:
    return pa.table(
        {"id": range(first, first + len(cities)), "city": cities, "fare": [1.5] * len(cities)}, schema=SCHEMA
    )


def created(path: Path, kind: str = "cow", version: int = 9, **options: str) -> pudi.Table:
    options = {"hoodie.write.table.version": str(version), **options}
    return pudi.create(
        str(path / "trips"), SCHEMA, record_key="id", partition_by="city", table_type=kind, options=options
    )


@pytest.fixture
def catalog(tmp_path: Path) -> Counting:
    return Counting(str(tmp_path / "catalog.db"))


def cities(catalog: SqliteCatalog, name: str = "trips", database: str = "default") -> list[str]:
    table = catalog.table(TableName(database, name))
    assert table is not None
    return sorted(each.values[0] for each in catalog.partitions(table))


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_what_changed_is_registered(tmp_path: Path, catalog: Counting, kind: str, version: int) -> None:
    table = created(tmp_path, kind, version)
    table.insert(rows("nyc", "rome"))
    names = ["trips"] if kind == "cow" else ["trips_ro", "trips_rt", "trips"]

    first = table.sync(catalog)
    assert [each.name for each in first.tables] == [f"default.{name}" for name in names]
    assert all(each.created and each.added == 2 for each in first.tables)
    assert first.complete

    table.insert(rows("oslo", first=5))
    table.delete_partitions(["nyc"])
    second = table.sync(catalog)
    assert second.tables == tuple(SyncedTable(f"default.{name}", added=1, dropped=1) for name in names)
    assert not second.complete
    for name in names:
        assert cities(catalog, name) == ["oslo", "rome"]
        entry = catalog.table(TableName("default", name))
        assert entry is not None
        assert entry.properties["last_commit_time_sync"] == table.timeline.commits[-1].requested
        assert entry.properties["last_commit_completion_time_sync"] == table.timeline.commits[-1].completion


def test_a_sync_with_nothing_to_do_asks_once(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.insert(rows("nyc", "rome"))
    table.sync(catalog)
    catalog.calls.clear()
    assert not table.sync(catalog).tables[0].is_changed
    assert catalog.calls == ["tables"]


def test_only_partitions_of_new_commits_are_looked_at(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.insert(rows(*(f"c{number}" for number in range(30))))
    table.sync(catalog)
    table.upsert(rows("c3", "c4", first=3))
    catalog.asked.clear()
    catalog.calls.clear()
    table.sync(catalog)
    assert catalog.asked == [2]
    assert catalog.calls == ["tables", "partitions", "tables", "alter_table"]


def test_conditional_syncs_leave_the_times(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.insert(rows("nyc"))
    table.sync(catalog)
    table.upsert(rows("nyc"))
    catalog.calls.clear()
    table.sync(catalog, options={"hoodie.datasource.meta_sync.condition.sync": "true"})
    assert "alter_table" not in catalog.calls


@pytest.mark.parametrize("step", ["add_partitions", "drop_partitions", "alter_table"])
def test_the_next_sync_mends_one_that_failed(tmp_path: Path, catalog: Counting, step: str) -> None:
    table = created(tmp_path)
    table.insert(rows("nyc", "rome"))
    table.sync(catalog)
    table.insert(rows("oslo", first=5))
    table.delete_partitions(["nyc"])
    catalog.failing.add(step)
    with pytest.raises(pudi.UnavailableError):
        table.sync(catalog)
    catalog.failing.clear()
    table.sync(catalog)
    assert cities(catalog) == ["oslo", "rome"]


def test_a_first_sync_that_failed_is_mended(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.insert(rows("nyc", "rome"))
    catalog.failing.add("add_partitions")
    with pytest.raises(pudi.UnavailableError):
        table.sync(catalog)
    catalog.failing.clear()
    assert table.sync(catalog).complete
    assert cities(catalog) == ["nyc", "rome"]


def test_after_a_restore_all_partitions_are_compared(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    done = table.insert(rows("nyc"))
    assert done is not None
    table.savepoint(done.instant)
    table.insert(rows("rome", first=5))
    table.sync(catalog)
    assert cities(catalog) == ["nyc", "rome"]
    table.restore(done.instant)
    assert table.sync(catalog).complete
    assert cities(catalog) == ["nyc"]


def test_after_the_last_synced_commit_was_archived_all_are_compared(tmp_path: Path, catalog: Counting) -> None:
    limits = {
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.clean.commits.retained": "1",
        "hoodie.metadata.enable": "false",
    }
    table = created(tmp_path, **limits)
    table = pudi.Table(table.path, limits)
    table.insert(rows("nyc"))
    first = table.sync(catalog)
    table.insert(rows("rome", first=1))
    table.delete_partitions(["nyc"])
    for number in range(6):
        table.upsert(rows("oslo", first=10 + number))
    assert (table.timeline.start or "") > (first.instant or "")
    assert table.sync(catalog).complete
    assert cities(catalog) == ["oslo", "rome"]


def test_a_table_that_was_created_again_is_compared_as_a_whole(tmp_path: Path, catalog: Counting) -> None:
    import shutil

    created(tmp_path).insert(rows("nyc"))
    pudi.Table(str(tmp_path / "trips")).sync(catalog)
    shutil.rmtree(tmp_path / "trips")
    table = created(tmp_path)
    table.insert(rows("rome"))
    table.sync(catalog)
    assert cities(catalog) == ["rome"]


def test_overwrites_drop_what_is_empty_now(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.insert(rows("nyc", "rome"))
    table.sync(catalog)
    table.insert_overwrite_table(rows("oslo", "rome"))
    done = table.sync(catalog)
    assert (done.tables[0].added, done.tables[0].dropped) == (1, 1)
    assert cities(catalog) == ["oslo", "rome"]


def test_a_deleted_partition_that_is_written_again_stays(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.insert(rows("nyc", "rome"))
    table.sync(catalog)
    table.delete_partitions(["nyc"])
    table.insert(rows("nyc"))
    assert not table.sync(catalog).tables[0].is_changed
    assert cities(catalog) == ["nyc", "rome"]


def test_columns_follow_the_table(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.insert(rows("nyc"))
    table.sync(catalog)
    table.add_column("tip", "double")
    assert table.sync(catalog).tables == (SyncedTable("default.trips", columns_changed=True, properties_changed=True),)
    entry = catalog.table(TableName("default", "trips"))
    assert entry is not None
    assert [each.name for each in entry.columns][-3:] == ["id", "fare", "tip"]
    assert '"name":"tip","type":"double"' in entry.properties["spark.sql.sources.schema.part.0"]


def test_what_others_registered_stays(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.insert(rows("nyc"))
    table.sync(catalog)
    entry = catalog.table(TableName("default", "trips"))
    assert entry is not None
    catalog.alter_table(entry.with_properties({"owner.team": "rides"}))
    table.upsert(rows("rome"))
    table.sync(catalog)
    now = catalog.table(TableName("default", "trips"))
    assert now is not None
    assert now.properties["owner.team"] == "rides"


def taken(catalog: Counting, **changes: Any) -> None:
    """Register a table under the name, as the first sync left it but for some changes."""
    entry = catalog.table(TableName("default", "trips"))
    assert entry is not None
    catalog.drop_table(entry.name)
    catalog.create_table(replace(entry, **changes))


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"location": "file:/elsewhere"}, pudi.TableExistsError, "is the table at file:/elsewhere"),
        (
            {"properties": {"spark.sql.sources.provider": "delta"}},
            pudi.TableExistsError,
            "no Hudi table but one of delta",
        ),
        ({"kind": "VIRTUAL_VIEW"}, pudi.TableExistsError, "no Hudi table"),
        ({"partition_columns": (CatalogColumn("day", "date"),)}, pudi.SchemaError, "partition columns day date"),
    ],
)
def test_the_name_of_another_table_is_refused(
    tmp_path: Path, catalog: Counting, changes: Mapping[str, Any], error: type[Exception], said: str
) -> None:
    table = created(tmp_path)
    table.insert(rows("nyc"))
    table.sync(catalog)
    changes = dict(changes)
    if "properties" in changes:
        entry = catalog.table(TableName("default", "trips"))
        assert entry is not None
        changes["format"] = replace(entry.format, input_format="SequenceFile")
    taken(catalog, **changes)
    before = catalog.table(TableName("default", "trips"))
    catalog.calls.clear()
    with pytest.raises(error, match=said) as raised:
        table.sync(catalog)
    assert "default.trips" in str(raised.value)
    assert str(catalog) in str(raised.value)
    assert "drop default.trips" in str(raised.value)
    assert catalog.calls == ["tables"]
    assert catalog.table(TableName("default", "trips")) == before


def test_a_missing_database_is_created_or_said(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    with pytest.raises(pudi.NotFoundError, match="there is no database 'rides'"):
        table.sync(catalog, "rides.trips", options={SYNC + "auto_create_database": "false"})
    table.sync(catalog, "rides.trips")
    assert catalog.table_names("rides") == ["trips"]


def test_a_table_without_commits_is_registered(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    assert table.sync(catalog).instant is None
    table.insert(rows("nyc"))
    table.sync(catalog)
    assert cities(catalog) == ["nyc"]


def test_partition_paths_that_give_no_values_are_refused(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.insert(rows("nyc"))
    with pytest.raises(pudi.InvalidArgumentError, match=r"'nyc' can't be registered under the columns city, day"):
        table.sync(catalog, options={SYNC + "partition_fields": "city,day"})


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_writes_register_where_options_say(tmp_path: Path, kind: str) -> None:
    place = f"sqlite:{tmp_path}/catalog.db/rides.trips"
    options = {
        "hoodie.datasource.meta.sync.enable": "true",
        "hoodie.meta.sync.client.tool.class": place,
        SYNC + "support_timestamp": "true",
    }
    created(tmp_path, kind)
    table = pudi.Table(str(tmp_path / "trips"), options)
    done = table.insert(rows("nyc"))
    assert done is not None
    assert [sync.instant for sync in done.syncs] == [done.instant]
    assert "registered in sqlite:" in str(done)
    catalog = SqliteCatalog(f"{tmp_path}/catalog.db")
    assert cities(catalog, database="rides") == ["nyc"]
    changed = table.add_column("tip", "double")
    assert changed.syncs[0].tables[-1].columns_changed
    gone = table.delete_partitions(["nyc"])
    assert gone is not None
    assert gone.syncs[0].tables[-1].dropped == 1


def test_a_sync_that_fails_leaves_the_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no catalog, but a text that is long enough" * 50)
    place = f"sqlite:{tmp_path}/file/db.trips"
    created(tmp_path)
    options = {"hoodie.datasource.meta.sync.enable": "true", "hoodie.meta.sync.client.tool.class": place}
    done = pudi.Table(str(tmp_path / "trips"), options).insert(rows("nyc"))
    assert done is not None
    assert list(done.failed_services) == [f"sync {place}"]
    assert "no file of SQLite" in done.failed_services[f"sync {place}"]
    assert done.syncs == ()
    assert "the commit stands" in caplog.text
    assert pudi.Table(str(tmp_path / "trips")).scan().to_arrow().num_rows == 1


def test_the_metastore_of_the_session_is_taken_where_options_name_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi's jobs name it in hive-site.xml, not in their options."""
    pytest.importorskip("thrift")
    monkeypatch.setattr(LocalEngine, "metastore", "thrift://127.0.0.1:1")
    options = {SYNC + "enable": "true", SYNC + "mode": "hms"}
    created(tmp_path)
    done = pudi.Table(str(tmp_path / "trips"), options).insert(rows("nyc"))
    assert done is not None
    assert "127.0.0.1:1 doesn't answer" in done.failed_services["sync HiveSyncTool"]
    named = {**options, SYNC + "metastore.uris": "thrift://127.0.0.1:2"}
    done = pudi.Table(str(tmp_path / "trips"), named).insert(rows("rome"))
    assert done is not None
    assert "127.0.0.1:2 doesn't answer" in done.failed_services["sync HiveSyncTool"]


def test_a_session_that_cant_tell_its_metastore_loses_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit stands by then."""

    def fails(self: LocalEngine) -> str:
        raise pudi.CorruptError("the configuration of Hive can't be read", path="/etc/hive-site.xml")

    monkeypatch.setattr(LocalEngine, "metastore", property(fails))
    created(tmp_path)
    done = pudi.Table(str(tmp_path / "trips"), {SYNC + "enable": "true", SYNC + "mode": "hms"}).insert(rows("nyc"))
    assert done is not None
    assert "hive-site.xml" in done.failed_services["sync"]
    assert done.syncs == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({SYNC + "enable": "true"}, "by JDBC"),
        ({SYNC + "enable": "true", SYNC + "mode": "jdbc"}, "mode=jdbc is not supported"),
        ({SYNC + "enable": "true", SYNC + "mode": "HIVEQL"}, "mode=hiveql is not supported"),
        (
            {
                "hoodie.datasource.meta.sync.enable": "true",
                "hoodie.meta.sync.client.tool.class": "org.apache.hudi.sync.datahub.DataHubSyncTool",
            },
            "DataHubSyncTool: pudi registers tables by",
        ),
        (
            {
                "hoodie.datasource.meta.sync.enable": "true",
                "hoodie.meta.sync.client.tool.class": "org.apache.hudi.gcp.bigquery.BigQuerySyncTool",
            },
            "for BigQuery by the manifest: manifest:absolute",
        ),
        (
            {"hoodie.datasource.meta.sync.enable": "true", "hoodie.meta.sync.client.tool.class": "unity:x/db.t"},
            "'unity' are not supported yet",
        ),
    ],
)
def test_what_can_not_be_done_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, str], said: str
) -> None:
    created(tmp_path)
    with pytest.raises(pudi.NotSupportedError, match=said):
        pudi.Table(str(tmp_path / "trips"), options).insert(rows("nyc"))
    assert pudi.Table(str(tmp_path / "trips")).timeline.instants == ()


def test_the_procedure_registers_in_the_metastore_that_it_names(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("thrift")
    created(tmp_path).insert(rows("nyc"))
    with pytest.raises(pudi.UnavailableError, match=r"127\.0\.0\.1:1 doesn't answer"):
        pudi.sql(f"CALL hive_sync(table => '{tmp_path}/trips', metastore_uri => 'thrift://127.0.0.1:1')")
    with pytest.raises(pudi.NotSupportedError, match="mode=jdbc is not supported"):
        pudi.sql(f"CALL hive_sync(table => '{tmp_path}/trips', mode => 'jdbc')")


@pytest.mark.parametrize(
    ("before", "name", "database"),
    [
        ("SHOW TABLES", "rides.trips", "rides"),
        ("USE rides", "trips", "rides"),
        (f"SET {SYNC}database = other", "rides.trips", "other"),
        ("SHOW TABLES", "{path}", "default"),
    ],
)
def test_the_procedure_registers_in_the_database_of_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, name: str, database: str
) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("thrift")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    path = created(tmp_path).path
    catalog = SqliteCatalog(str(tmp_path / "catalog.db"))
    monkeypatch.setattr("pudi.catalogs.hive.HiveCatalog", lambda *given: catalog)
    pudi.sql(f"CREATE TABLE rides.trips USING hudi LOCATION '{path}'")
    pudi.sql(before)
    pudi.sql(f"CALL hive_sync(table => '{name.format(path=path)}')")
    assert catalog.table_names(database) == ["trips"]


def test_two_processes_register_a_table_for_the_first_time(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.insert(rows("nyc", "rome"))

    class Late(Counting):
        """A catalog in which another process registers the table between look and creation."""

        def create_table(self, entry: CatalogTable) -> None:
            table.sync(catalog)
            super().create_table(entry)

    done = table.sync(Late(str(tmp_path / "catalog.db")))
    assert not done.tables[0].created
    assert cities(catalog) == ["nyc", "rome"]


def test_two_partitions_with_one_value_are_refused(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.insert(rows("a/b", "a-b"))
    said = r"the partitions 'a-b' and 'a/b' can't both be registered: .* the value 'a-b' from both paths.*trips\]$"
    with pytest.raises(pudi.InvalidArgumentError, match=said):
        table.sync(catalog)
    table.delete_partitions(["a/b"])
    table.sync(catalog)
    assert cities(catalog) == ["a-b"]


def test_a_partition_does_not_take_the_entry_of_another(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.insert(rows("a-b", "oslo"))
    table.sync(catalog)
    table.insert(rows("a/b"))
    with pytest.raises(pudi.InvalidArgumentError, match=r"the partitions 'a-b' and 'a/b' can't both be registered"):
        table.sync(catalog)
    assert cities(catalog) == ["a-b", "oslo"]
    table.delete_partitions(["a-b"])
    assert table.sync(catalog).tables[0].moved == 1
    entry = catalog.table(TableName("default", "trips"))
    assert entry is not None
    assert {each.values: each.location for each in catalog.partitions(entry)}[("a-b",)].endswith("trips/a/b")


@pytest.mark.parametrize("place", ["manifest", "manifest:absolute"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_manifest_lists_the_latest_base_files(tmp_path: Path, kind: str, place: str) -> None:
    created(tmp_path, kind)
    options = {"hoodie.datasource.meta.sync.enable": "true", "hoodie.meta.sync.client.tool.class": place}
    table = pudi.Table(str(tmp_path / "trips"), options)
    table.insert(rows("nyc", "rome"))
    table.delete_partitions(["nyc"])
    done = table.upsert(rows("nyc", "rome"))
    assert done is not None
    assert not done.failed_services
    folder = "absolute-path-manifest" if place.endswith("absolute") else "manifest"
    listed = (tmp_path / "trips" / ".hoodie" / folder / "latest-snapshot.csv").read_text().splitlines()
    bases = [each.base.path for each in table.file_slices() if each.base is not None]
    if place.endswith("absolute"):
        assert sorted(listed) == sorted(f"file:{tmp_path}/trips/{path}" for path in bases)
    else:
        assert sorted(listed) == sorted(path.rpartition("/")[2] for path in bases)
    assert len(listed) == 2


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_table_is_opened_by_its_name(tmp_path: Path, kind: str) -> None:
    table = created(tmp_path, kind)
    table.insert(rows("nyc"))
    place = f"sqlite:{tmp_path}/catalog.db/rides"
    table.sync(f"{place}.trips")
    found = pudi.Table(f"{place}.trips")
    assert found.path == table.path
    assert found.scan().to_arrow().num_rows == 1
    with pytest.raises(pudi.TableNotFoundError, match=r"has no table rides\.others; register it"):
        pudi.Table(f"{place}.others")
    if kind == "mor":
        with pytest.raises(pudi.InvalidArgumentError, match=r"rides\.trips_ro is the read-optimised view"):
            pudi.Table(f"{place}.trips_ro")


def test_a_table_of_another_format_is_not_opened(tmp_path: Path, catalog: Counting) -> None:
    table = created(tmp_path)
    table.sync(catalog)
    taken(catalog, kind="VIRTUAL_VIEW")
    with pytest.raises(pudi.TableNotFoundError, match=r"default\.trips is a table of another format"):
        pudi.Table(f"{catalog}/default.trips")


def test_a_sync_is_measured(tmp_path: Path, catalog: Counting, caplog: pytest.LogCaptureFixture) -> None:
    created(tmp_path)
    options = {"hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": "SLF4J"}
    table = pudi.Table(str(tmp_path / "trips"), options)
    table.insert(rows("nyc", "rome"))
    table.sync(catalog)
    table.insert(rows("oslo", first=5))
    table.delete_partitions(["nyc"])
    with caplog.at_level("INFO", "pudi.metrics"):
        table.sync(catalog)
        catalog.failing.add("tables")
        with pytest.raises(pudi.UnavailableError):
            table.sync(catalog)
    done, failed = (record.getMessage() for record in caplog.records if "meta_sync" in record.getMessage())
    assert "partitions_added=1" in done.replace(": ", "=").replace("'", "")
    assert "partitions_dropped=1" in done.replace(": ", "=").replace("'", "")
    assert "duration" in done
    assert "failure" in failed


def test_two_tables_are_compared_in_hudis_words(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    first, second = created(tmp_path / "a"), created(tmp_path / "b")
    call = (
        f"CALL sync_validate(src_table => '{first.path}', dst_table => '{second.path}', mode => '%s', "
        "hive_server_url => 'jdbc:hive2://host', hive_pass => '')"
    )
    first.insert(rows("nyc", "rome", "oslo"))
    second.insert(rows("nyc"))
    told = pudi.sql(call % "complete")["result"].to_pylist()
    assert told == ["Count difference now is count(trips) - count(trips) == -2. Catach up count is 1"]
    with pytest.raises(pudi.InvalidArgumentError, match="compares days in a column datestr"):
        pudi.sql(call % "latestPartitions")
    with pytest.raises(pudi.InvalidArgumentError, match="mode 'all': it is 'complete' or 'latestPartitions'"):
        pudi.sql(call % "all")
