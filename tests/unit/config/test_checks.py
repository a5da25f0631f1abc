from __future__ import annotations

import pytest

from pudi.config import (
    Options,
    TableConfig,
    check_consistent,
    check_readable,
    check_writable,
    metadata_dropped,
    resolve,
)
from pudi.config.new_table import NewTable
from pudi.errors import InvalidArgumentError, NotSupportedError

TABLE = "memory://t"
NO_METADATA = resolve({"hoodie.metadata.enable": "false"})


def config(**changes: str) -> TableConfig:
    new = NewTable(name="t", create_schema="{}", record_key=["id"], partition_by=["p"], ordering=["ts"])
    return TableConfig.new(new, Options(), table=TABLE).with_properties(changes, table=TABLE)


def test_a_plain_table_is_read_and_written() -> None:
    check_readable(config(), TABLE)
    check_writable(config(), TABLE)
    check_writable(config(), TABLE, Options())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.version", "10"),
        ("hoodie.timeline.layout.version", "1"),
        ("hoodie.bootstrap.base.path", "s3://elsewhere"),
        ("hoodie.table.base.file.format", "LANCE"),
        ("hoodie.table.multiple.base.file.formats.enable", "true"),
        ("hoodie.table.storage.layout", "LSM"),
        ("hoodie.table.format", "iceberg"),
        ("hoodie.partition.metafile.use.base.format", "true"),
    ],
)
def test_what_cannot_be_read_right_is_refused_for_reads_and_writes(key: str, value: str) -> None:
    for check in (check_readable, check_writable):
        with pytest.raises(NotSupportedError) as raised:
            check(config(**{key: value}), TABLE)
        assert f"{key}={value}" in raised.value.message
        assert raised.value.table == TABLE


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.keygenerator.type", "GLOBAL_DELETE"),
        ("hoodie.keygen.datetime.parser.class", "com.example.Parser"),
        ("hoodie.datasource.write.slash.separated.date.partitioning", "true"),
        ("hoodie.record.merge.mode", "CUSTOM"),
        ("hoodie.compaction.payload.class", "com.example.Own"),
    ],
)
def test_what_cannot_be_written_right_can_still_be_read(key: str, value: str) -> None:
    check_readable(config(**{key: value}), TABLE)
    with pytest.raises(NotSupportedError) as raised:
        check_writable(config(**{key: value}), TABLE)
    assert f"{key}={value}" in raised.value.message
    assert raised.value.message.split(": ", 1)[1]


@pytest.mark.parametrize("version", ["1", "2", "3", "4", "5", "7"])
def test_old_versions_are_read(version: str) -> None:
    old = config(**{"hoodie.table.version": version, "hoodie.timeline.layout.version": "1"})
    check_readable(old, TABLE)
    with pytest.raises(NotSupportedError, match="pudi upgrade"):
        check_writable(old, TABLE)


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.table.keygenerator.type": "CUSTOM"},
        {"hoodie.table.keygenerator.type": "TIMESTAMP"},
        {"hoodie.table.recordkey.fields": ""},
    ],
)
def test_tables_without_meta_fields_compute_their_keys(properties: dict[str, str]) -> None:
    without = {"hoodie.populate.meta.fields": "false"}
    check_writable(config(**without), TABLE)
    check_readable(config(**without, **properties), TABLE)
    with pytest.raises(NotSupportedError, match=r"hoodie\.populate\.meta\.fields=false"):
        check_writable(config(**without, **properties), TABLE)


def test_indexes_of_record_keys_are_not_kept_without_meta_fields() -> None:
    without = {"hoodie.populate.meta.fields": "false", "hoodie.table.metadata.partitions": "files,record_index"}
    with pytest.raises(NotSupportedError, match=r"hoodie\.metadata\.index\.drop=record_index"):
        check_writable(config(**without), TABLE)
    check_writable(config(**without), TABLE, resolve({"hoodie.metadata.index.drop": "record_index"}))


def test_half_a_delete_marker_is_refused_by_its_property() -> None:
    prefix = "hoodie.record.merge.property.hoodie.payload.delete."
    for half in ("field", "marker"):
        with pytest.raises(NotSupportedError, match=prefix + half):
            check_writable(config(**{prefix + half: "op"}), TABLE)
    whole = config(**{f"{prefix}field": "op", f"{prefix}marker": "D"})
    check_writable(whole, TABLE)
    assert whole.delete_marker == ("op", "D")


def test_delete_markers_are_fixed_when_the_table_is_made() -> None:
    prefix = "hoodie.record.merge.property.hoodie.payload.delete."
    given = resolve({"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"})
    check_consistent(config(**{f"{prefix}field": "op", f"{prefix}marker": "D"}), given, TABLE)
    for table in ({}, {f"{prefix}field": "op", f"{prefix}marker": "X"}):
        with pytest.raises(InvalidArgumentError, match="contradicts"):
            check_consistent(config(**table), given, TABLE)


def test_a_time_zone_that_the_table_leaves_open_may_be_given() -> None:
    given = resolve({"hoodie.keygen.timebased.output.timezone": "Asia/Tokyo"})
    check_consistent(config(), given, TABLE)
    with pytest.raises(InvalidArgumentError, match="contradicts"):
        check_consistent(config(**{"hoodie.keygen.timebased.timezone": "UTC"}), given, TABLE)


@pytest.mark.parametrize("kind", ["SIMPLE", "SIMPLE_AVRO", "COMPLEX", "COMPLEX_AVRO", "TIMESTAMP", "CUSTOM_AVRO"])
def test_plain_key_generators_are_written(kind: str) -> None:
    check_writable(config(**{"hoodie.table.keygenerator.type": kind}), TABLE)


def test_what_the_metadata_table_has_is_kept_or_taken_away_on_request() -> None:
    check_writable(config(**{"hoodie.table.metadata.partitions": "files,column_stats"}), TABLE, Options())
    hudis = config(**{"hoodie.table.metadata.partitions": "files,vector_index_day"})
    with pytest.raises(NotSupportedError, match=r"hoodie\.metadata\.index\.drop=vector_index_day"):
        check_writable(hudis, TABLE, Options())
    drops = resolve({"hoodie.metadata.index.drop": "vector_index_day"})
    check_writable(hudis, TABLE, drops)
    check_writable(hudis, TABLE, NO_METADATA)
    assert metadata_dropped(drops, hudis.metadata_partitions) == ["vector_index_day"]
    assert metadata_dropped(resolve({"hoodie.metadata.index.column.stats.enable": "false"}), ["column_stats"])
    assert not metadata_dropped(Options(), ["column_stats"])
    check_writable(hudis.with_properties({"hoodie.table.metadata.partitions": ""}, table=TABLE), TABLE)


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"},
        {"hoodie.datasource.write.partitionpath.field": "p", "hoodie.datasource.write.precombine.field": "ts"},
        {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator"},
        {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"},
        {"hoodie.datasource.write.hive_style_partitioning": "false", "hoodie.database.name": "db"},
        {"hoodie.parquet.max.file.size": "1"},
    ],
)
def test_options_that_say_what_the_table_says_are_taken(options: dict[str, str]) -> None:
    check_consistent(config(), resolve(options), TABLE)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.name", "other"),
        ("hoodie.datasource.write.recordkey.field", "other"),
        ("hoodie.datasource.write.partitionpath.field", ""),
        ("hoodie.datasource.write.precombine.field", "n"),
        ("hoodie.record.merge.mode", "COMMIT_TIME_ORDERING"),
        ("hoodie.datasource.write.hive_style_partitioning", "true"),
        ("hoodie.datasource.write.keygenerator.class", "org.apache.hudi.keygen.ComplexKeyGenerator"),
        ("hoodie.datasource.write.payload.class", "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"),
        ("hoodie.table.timeline.timezone", "LOCAL"),
    ],
)
def test_an_option_that_contradicts_the_table_is_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidArgumentError, match="contradicts the table"):
        check_consistent(config(), resolve({key: value}), TABLE)
