from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.config import (
    ALL_OPTIONS,
    CompactionOptions,
    LockSettings,
    MergeMemory,
    MetadataOptions,
    Option,
    Options,
    OptionsView,
    ReadOptions,
    Scope,
    Status,
    TableConfig,
    WriteOptions,
    find_option,
    option,
    resolve,
)
from pudi.errors import InvalidArgumentError, NotSupportedError, PudiError

PARQUET_CODEC = "hoodie.parquet.compression.codec"
FILE_SIZE = "hoodie.parquet.max.file.size"


def test_every_key_names_one_option() -> None:
    keys = [key for declared in ALL_OPTIONS for key in declared.keys]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("declared", ALL_OPTIONS, ids=lambda declared: declared.key)
def test_declarations_are_sound(declared: Option[Any]) -> None:
    assert declared.doc.endswith(".")
    assert find_option(declared.key) is declared
    if declared.default is not None:
        assert type(declared.default) is declared.kind
        if declared.choices:
            assert declared.default in declared.choices


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        (FILE_SIZE, " 1024 ", 1024),
        ("hoodie.index.bloom.fpp", "1.0E-3", 0.001),
        ("hoodie.combine.before.insert", "TRUE", True),
        (PARQUET_CODEC, "ZSTD", "zstd"),
        ("hoodie.index.type", "bloom", "BLOOM"),
        ("hoodie.datasource.write.precombine.field", "ts", "ts"),
    ],
)
def test_values_parse(key: str, text: str, value: object) -> None:
    assert list(resolve({key: text}).given.values()) == [value]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (FILE_SIZE, "120MB"),
        (FILE_SIZE, "1_000"),
        (FILE_SIZE, "0"),
        (FILE_SIZE, ""),
        (FILE_SIZE, "9" * 5000),
        (FILE_SIZE, "٣"),
        ("hoodie.index.bloom.fpp", "nan"),
        ("hoodie.index.bloom.fpp", "1e999"),
        ("hoodie.combine.before.insert", "yes"),
        ("hoodie.index.type", "SIMPEL"),
    ],
)
def test_a_value_that_does_not_parse_is_an_error_that_names_it(key: str, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=key.replace(".", r"\.")):
        resolve({key: text})


def test_python_values_are_taken_and_others_refused() -> None:
    assert resolve({"hoodie.combine.before.insert": True, FILE_SIZE: 5}).given == {  # type: ignore[dict-item]
        "hoodie.combine.before.insert": True,
        FILE_SIZE: 5,
    }
    with pytest.raises(InvalidArgumentError, match="NoneType"):
        resolve({FILE_SIZE: None})  # type: ignore[dict-item]


def test_an_unknown_key_suggests_the_nearest() -> None:
    with pytest.raises(InvalidArgumentError, match=r"did you mean hoodie\.parquet\.max\.file\.size\?"):
        resolve({"hoodie.parquet.max.filesize": "1"})
    with pytest.raises(InvalidArgumentError, match=r"options\.md"):
        resolve({"zzzz": "1"})


def test_the_verb_wins_over_the_table_and_the_table_over_the_default() -> None:
    table = {FILE_SIZE: "10", PARQUET_CODEC: "gzip"}
    options = resolve({FILE_SIZE: "20"}, table, None)
    assert options[WriteOptions.max_file_size] == 20
    assert options[WriteOptions.compression_codec] == "gzip"
    assert options[WriteOptions.page_size] == 1024 * 1024


def test_an_alias_in_the_verb_wins_over_the_key_in_the_table() -> None:
    options = resolve({"hoodie.cleaner.policy.failed.writes": "never"}, {"hoodie.clean.failed.writes.policy": "EAGER"})
    assert WriteOptions.of(options).failed_writes_policy == "NEVER"


def test_one_setting_with_two_values_in_a_layer_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="one setting"):
        resolve({"hoodie.table.name": "a", "hoodie.datasource.write.table.name": "b"})
    options = resolve({"hoodie.table.name": "a", "hoodie.datasource.write.table.name": "a"})
    assert options[TableConfig.table_name] == "a"


def test_the_most_special_declaration_of_a_key_counts() -> None:
    assert option("hoodie.clean.failed.writes.policy").status is Status.SUPPORTED
    assert option("hoodie.clean.commits.retained").status is Status.SUPPORTED
    assert option("hoodie.clean.other").status is Status.UNSUPPORTED
    assert option("hoodie.deltastreamer.keygen.timebased.timezone").scope is Scope.TABLE


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("hoodie.datasource.hive_sync.mode", "jdbc"),
        ("hoodie.datasource.hive_sync.bucket_sync", "true"),
        ("hoodie.write.table.version", "7"),
        ("as.of.instant", "20260101000000000"),
        ("hoodie.datasource.write.operation", "cluster"),
    ],
)
def test_what_is_lacking_is_refused_by_name_and_value(key: str, text: str) -> None:
    with pytest.raises(NotSupportedError) as raised:
        resolve({key: text})
    assert f"{key}={text}" in str(raised.value)
    assert raised.value.message.split(": ", 1)[1]


def test_what_is_lacking_may_be_switched_off() -> None:
    resolve(
        {
            "hoodie.datasource.hive_sync.bucket_sync": "false",
            "hoodie.metadata.enable": "false",
        }
    )


def test_a_harmless_option_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    key = "hoodie.metrics.reporter.test_a_harmless_option_is_said_once"
    with caplog.at_level(logging.INFO, logger="pudi.config"):
        resolve({key: "x"})
        resolve({key: "y"})
    assert [record.getMessage().split()[1] for record in caplog.records] == [key]


def test_the_option_map_of_a_usual_job_is_taken() -> None:
    options = resolve(
        {
            "hoodie.table.name": "trips",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.upsert.shuffle.parallelism": "2",
            "hoodie.datasource.hive_sync.enable": "true",
            "hoodie.datasource.hive_sync.mode": "hms",
            "hoodie.datasource.hive_sync.metastore.uris": "thrift://metastore:9083",
            "hoodie.datasource.hive_sync.database": "default",
            "hoodie.embed.timeline.server": "false",
            "hoodie.clean.automatic": "true",
            "hoodie.cleaner.commits.retained": "10",
            "hoodie.keep.min.commits": "20",
            "hoodie.metadata.enable": "false",
            "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
            "hoodie.cleaner.policy.failed.writes": "LAZY",
        }
    )
    assert options[TableConfig.record_key] == "uuid"
    assert options[TableConfig.ordering] == "ts"
    assert WriteOptions.of(options).operation == "upsert"


@given(st.dictionaries(st.sampled_from([declared.key for declared in ALL_OPTIONS]) | st.text(max_size=30), st.text()))
def test_whatever_is_given_the_answer_is_options_or_a_typed_error(layer: dict[str, str]) -> None:
    try:
        options = resolve(layer)
    except PudiError:
        return
    assert set(options.given) <= set(layer)


def test_default_write_options_are_hudis_where_nothing_is_said() -> None:
    default = WriteOptions.of(Options())
    assert (default.operation, default.bloom_type) == ("upsert", "DYNAMIC_V0")
    assert (default.small_file_limit, default.max_file_size, default.block_size) == (104857600, 125829120, 125829120)
    assert (default.bloom_num_entries, default.bloom_fpp, default.bloom_max_entries) == (60000, 1e-9, 100000)
    assert not default.combine_before_insert
    assert default.heartbeat_expiry_ms == 120_000


def test_write_options_where_pudi_differs_from_hudi() -> None:
    default = WriteOptions.of(Options())
    assert (default.compression_codec, default.failed_writes_policy, default.bloom_enabled) == ("zstd", "LAZY", False)
    assert WriteOptions.of(resolve({"hoodie.index.type": "BLOOM"})).bloom_enabled
    assert WriteOptions.of(resolve({"hoodie.parquet.bloom.filter.enabled": "true"})).bloom_enabled
    off = {"hoodie.parquet.bloom.filter.enabled": "false", "hoodie.index.type": "BLOOM"}
    assert not WriteOptions.of(resolve(off)).bloom_enabled


def test_options_and_their_views_travel_to_workers() -> None:
    options = resolve({FILE_SIZE: "7"})
    assert pickle.loads(pickle.dumps(options)) == options
    assert pickle.loads(pickle.dumps(WriteOptions.of(options))).max_file_size == 7


VIEWS = (WriteOptions, CompactionOptions, LockSettings, MergeMemory, MetadataOptions, ReadOptions)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_an_attribute_for_each_option(view: type[OptionsView]) -> None:
    default = view.of(Options())
    names = [name for name in dir(view) if isinstance(getattr(view, name), Option)]
    assert {getattr(view, name) for name in names} == set(view.declared)
    for name in names:
        declared = getattr(view, name)
        assert getattr(default, name) == declared.default
        assert str(declared) == declared.key


def test_a_view_is_a_value() -> None:
    view = WriteOptions.of(resolve({FILE_SIZE: "7", "hoodie.metadata.enable": "true"}))
    assert view == WriteOptions.of(resolve({FILE_SIZE: "7"})) != WriteOptions.of(Options())
    with pytest.raises((AttributeError, TypeError)):
        view.max_file_size = 8  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        view.max_fil_size = 8  # type: ignore[attr-defined]
