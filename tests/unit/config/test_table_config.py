from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.config import Options, Scope, TableConfig, resolve
from pudi.config.new_table import NewTable
from pudi.config.option import text_of
from pudi.config.table_options import TABLE_OPTIONS
from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError, PudiError

TABLE = "memory://t"
SCHEMA = '{"type":"record","name":"r","fields":[]}'

# What Apache Hudi 1.2 wrote, by its Spark data source, for a non-partitioned table without a metadata table.
HUDI_NONPART = {
    "hoodie.table.keygenerator.type": "NON_PARTITION",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.history.path": "history",
    "hoodie.table.checksum": "1232031729",
    "hoodie.datasource.write.drop.partition.columns": "false",
    "hoodie.table.format": "native",
    "hoodie.table.partition_extractor_class": "org.apache.hudi.hive.NonPartitionedExtractor",
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.version": "9",
    "hoodie.table.initial.version": "9",
    "hoodie.table.partition.fields": "",
    "hoodie.table.cdc.enabled": "false",
    "hoodie.archivelog.folder": "history",
    "hoodie.table.multiple.base.file.formats.enable": "false",
    "hoodie.table.timeline.timezone": "LOCAL",
    "hoodie.table.name": "cow_v9_nonpart",
    "hoodie.table.recordkey.fields": "uuid",
    "hoodie.timeline.path": "timeline",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.partition.metafile.use.base.format": "false",
    "hoodie.populate.meta.fields": "true",
    "hoodie.table.base.file.format": "PARQUET",
}
# What it wrote for a partitioned one, as far as it differs, the metadata table apart.
HUDI_BASIC = HUDI_NONPART | {
    "hoodie.table.keygenerator.type": "SIMPLE",
    "hoodie.table.partition_extractor_class": "org.apache.hudi.hive.SinglePartPartitionValueExtractor",
    "hoodie.table.partition.fields": "city",
    "hoodie.table.name": "cow_v9_basic",
    "hoodie.table.checksum": "2671086973",
}


def parse(**changes: str | None) -> TableConfig:
    given = {key.replace("__", "."): value for key, value in changes.items()}
    merged = {**HUDI_BASIC, **given}
    return TableConfig.parse({key: value for key, value in merged.items() if value is not None}, table=TABLE)


def test_a_table_that_hudi_wrote() -> None:
    config = parse()
    assert (config.name, config.database, config.table_type) == ("cow_v9_basic", "", "COPY_ON_WRITE")
    assert (config.version, config.initial_version, config.layout_version) == (9, 9, 2)
    assert (config.record_key_fields, config.partition_fields, config.ordering_fields) == (
        ("uuid",),
        ("city",),
        ("ts",),
    )
    assert (config.key_generator_type, config.merge_mode, config.timezone) == ("SIMPLE", "EVENT_TIME_ORDERING", "LOCAL")
    assert (config.timeline_path, config.history_path) == ("timeline", "history")
    assert config.metadata_partitions == ()


@pytest.mark.parametrize(
    ("like", "arguments"),
    [(HUDI_BASIC, {"partition_by": ["city"]}), (HUDI_NONPART, {"partition_by": []})],
    ids=["partitioned", "not partitioned"],
)
def test_a_new_table_has_the_properties_that_hudi_gives_one(
    like: dict[str, str], arguments: dict[str, list[str]]
) -> None:
    name = like["hoodie.table.name"]
    new = NewTable(name=name, create_schema=SCHEMA, record_key=["uuid"], ordering=["ts"], **arguments)
    config = TableConfig.new(new, Options(), table=TABLE)
    expected = like | {"hoodie.table.timeline.timezone": "UTC", "hoodie.table.create.schema": SCHEMA}
    del expected["hoodie.table.checksum"]
    assert config.to_properties() == expected


def test_unknown_properties_are_kept() -> None:
    assert parse(**{"some.future.key": "x"}).to_properties()["some.future.key"] == "x"


def test_a_table_without_version_is_of_the_newest() -> None:
    assert parse(hoodie__table__version=None, hoodie__table__initial__version=None).version == 9


def test_lists_are_split_and_types_of_a_custom_generator_stripped() -> None:
    config = parse(
        **{
            "hoodie.table.partition.fields": "a:SIMPLE, b:TIMESTAMP",
            "hoodie.table.metadata.partitions": "column_stats,files",
            "hoodie.table.keygenerator.type": None,
        }
    )
    assert config.partition_fields == ("a", "b")
    assert config.metadata_partitions == ("column_stats", "files")
    assert config.key_generator_type == "CUSTOM"
    assert config.partition_types == ("SIMPLE", "TIMESTAMP")


def test_older_keys_are_read() -> None:
    config = parse(
        **{
            "hoodie.table.ordering.fields": None,
            "hoodie.table.precombine.field": "n",
            "hoodie.table.base.file.format": None,
            "hoodie.table.ro.file.format": "ORC",
        }
    )
    assert (config.ordering_fields, config.base_file_format) == (("n",), "ORC")


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        ({"hoodie.record.merge.mode": None}, "EVENT_TIME_ORDERING"),
        ({"hoodie.record.merge.mode": None, "hoodie.table.ordering.fields": None}, "COMMIT_TIME_ORDERING"),
        (
            {
                "hoodie.record.merge.mode": None,
                "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
            },
            "COMMIT_TIME_ORDERING",
        ),
        ({"hoodie.record.merge.mode": None, "hoodie.compaction.payload.class": "com.example.Own"}, "CUSTOM"),
        (
            {
                "hoodie.record.merge.mode": None,
                "hoodie.record.merge.strategy.id": "ce9acb64-bde0-424c-9b91-f6ebba25356d",
            },
            "COMMIT_TIME_ORDERING",
        ),
    ],
)
def test_the_merge_mode_is_inferred_as_in_hudi(changes: dict[str, str | None], mode: str) -> None:
    assert parse(**changes).merge_mode == mode


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.name", None),
        ("hoodie.table.name", ""),
        ("hoodie.timeline.layout.version", None),
        ("hoodie.table.version", "nine"),
        ("hoodie.table.type", "COPY_ON_WRIT"),
        ("hoodie.populate.meta.fields", "maybe"),
        ("hoodie.record.merge.mode", "LATEST"),
        ("hoodie.timeline.path", "../elsewhere"),
        ("hoodie.timeline.path", "/etc"),
        ("hoodie.timeline.history.path", "s3://bucket"),
    ],
)
def test_a_property_that_does_not_parse_is_corrupt_and_named(key: str, value: str | None) -> None:
    with pytest.raises(CorruptError) as raised:
        parse(**{key: value})
    assert key in raised.value.message
    assert (raised.value.table, raised.value.path) == (TABLE, "hoodie.properties")


def test_properties_change_to_a_new_value_and_the_metadata_table_can_go() -> None:
    config = parse(**{"hoodie.table.metadata.partitions": "files"})
    without = config.with_properties({"hoodie.table.metadata.partitions": ""}, table=TABLE)
    assert (config.metadata_partitions, without.metadata_partitions) == (("files",), ())
    assert without.to_properties()["hoodie.table.metadata.partitions"] == ""
    assert (
        "hoodie.table.name" not in config.with_properties({"x": "y"}, table=TABLE).to_properties().keys() - config.raw
    )
    assert "hoodie.database.name" not in config.with_properties({"hoodie.database.name": None}, table=TABLE).raw


def test_a_config_travels_to_workers_and_can_be_a_key() -> None:
    config = parse()
    assert pickle.loads(pickle.dumps(config)) == config
    assert {config: 1}[parse()] == 1


def new(*, options: Options | None = None, **arguments: Any) -> TableConfig:
    wanted = NewTable(**{"name": "t", "create_schema": SCHEMA, "record_key": ["id"], **arguments})
    return TableConfig.new(wanted, options or Options(), table=TABLE)


@pytest.mark.parametrize(
    ("keys", "partitions", "kind"),
    [
        (["id"], [], "NON_PARTITION"),
        (["id", "n"], [], "NON_PARTITION"),
        (["id"], ["p"], "SIMPLE"),
        (["id", "n"], ["p"], "COMPLEX"),
        (["id"], ["p", "q"], "COMPLEX"),
    ],
)
def test_the_key_generator_is_inferred_as_in_hudi(keys: list[str], partitions: list[str], kind: str) -> None:
    assert new(record_key=keys, partition_by=partitions).key_generator_type == kind


def test_a_jobs_options_make_the_same_table() -> None:
    job = resolve(
        {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        }
    )
    by_job = new(record_key=(), options=job)
    by_arguments = new(record_key=["id"], partition_by=["p"], ordering=["ts"])
    assert by_job == by_arguments


def test_options_reach_the_properties() -> None:
    options = resolve(
        {
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
            "hoodie.database.name": "db",
        }
    )
    config = new(partition_by=["p"], ordering=["ts"], options=options)
    assert (config.hive_style, config.merge_mode, config.database) == (True, "COMMIT_TIME_ORDERING", "db")
    extractor = config.to_properties()["hoodie.table.partition_extractor_class"]
    assert extractor == "org.apache.hudi.hive.HiveStylePartitionValueExtractor"
    legacy = config.to_properties()["hoodie.table.legacy.payload.class"]
    assert legacy == "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ({"record_key": ["id", "id"]}, {}, "twice"),
        ({"record_key": ["a,b"]}, {}, "comma"),
        ({"name": ""}, {}, "name is empty"),
        ({}, {"hoodie.table.recordkey.fields": "other"}, "contradict"),
        ({}, {"hoodie.table.name": "other"}, "contradict"),
        ({"partition_by": ["p", "q"]}, {"hoodie.table.keygenerator.type": "SIMPLE"}, "COMPLEX"),
        ({"partition_by": ["p"]}, {"hoodie.table.keygenerator.type": "NON_PARTITION"}, "no partition columns"),
        ({"partition_by": ["p:SIMPLE"]}, {"hoodie.table.keygenerator.type": "SIMPLE"}, "plain column"),
        ({}, {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}, "ordering"),
        (
            {"ordering": ["ts"]},
            {
                "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
                "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
            },
            "contradict",
        ),
    ],
)
def test_a_new_table_that_contradicts_itself_is_refused(
    arguments: dict[str, object], options: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        new(**arguments, options=resolve(options))


def test_folders_named_by_time_get_a_zone() -> None:
    kind = {"hoodie.table.keygenerator.type": "TIMESTAMP"}
    zone = "hoodie.keygen.timebased.timezone"
    made = new(partition_by=["ts"], options=resolve(kind)).raw
    sides = [f"hoodie.keygen.timebased.{side}.timezone" for side in ("input", "output")]
    assert [made[side] for side in sides] == ["UTC", "UTC"]
    told = new(partition_by=["ts"], options=resolve({**kind, zone: "Asia/Tokyo"})).raw
    assert told[zone] == "Asia/Tokyo"
    assert not set(sides) & set(told)


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.table.keygenerator.class": "com.example.Keys"},
        {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.GlobalDeleteKeyGenerator"},
        {"hoodie.compaction.payload.class": "com.example.Payload"},
    ],
)
def test_classes_that_are_not_known_are_refused_by_name(options: dict[str, str]) -> None:
    with pytest.raises(NotSupportedError) as raised:
        new(options=resolve(options))
    assert any(word in raised.value.message for word in (*options.values(), "GLOBAL_DELETE"))


@given(
    st.dictionaries(
        st.sampled_from([declared.key for declared in TABLE_OPTIONS]) | st.text(max_size=10), st.text(max_size=10)
    )
)
def test_whatever_the_properties_say_the_answer_is_a_config_or_a_typed_error(changes: dict[str, str]) -> None:
    properties = HUDI_BASIC | changes
    try:
        config = TableConfig.parse(properties, table=TABLE)
    except PudiError:
        return
    assert config.to_properties() == properties


def test_every_default_is_a_property_that_parses_to_itself() -> None:
    for declared in TABLE_OPTIONS:
        assert declared.scope is Scope.TABLE
        if declared.default is not None:
            assert declared.parse(text_of(declared.default)) == declared.default


def test_a_payload_of_change_streams_becomes_a_delete_marker() -> None:
    payload = "org.apache.hudi.common.model.AWSDmsAvroPayload"
    made = new(options=resolve({"hoodie.datasource.write.payload.class": payload}))
    assert made.merge_mode == "COMMIT_TIME_ORDERING"
    assert made.delete_marker == ("Op", "D")
    assert made.payload_class == payload
