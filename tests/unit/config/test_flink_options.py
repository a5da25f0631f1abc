"""Options of Hudi's Flink jobs: those that mean one of pudi's are taken, the others refused with the key to use."""

from __future__ import annotations

import pytest

from pudi.config import option, resolve
from pudi.errors import InvalidArgumentError, NotSupportedError


@pytest.mark.parametrize(
    ("key", "value", "canonical", "parsed"),
    [
        ("table.type", "merge_on_read", "hoodie.table.type", "MERGE_ON_READ"),
        ("write.operation", "insert", "hoodie.datasource.write.operation", "insert"),
        ("index.type", "BUCKET", "hoodie.index.type", "BUCKET"),
        ("write.precombine.field", "ts", "hoodie.table.ordering.fields", "ts"),
        ("ordering.fields", "ts,seq", "hoodie.table.ordering.fields", "ts,seq"),
        ("archive.max_commits", "40", "hoodie.keep.max.commits", 40),
        ("clean.retain_commits", "7", "hoodie.clean.commits.retained", 7),
        ("compaction.trigger.strategy", "num_or_time", "hoodie.compact.inline.trigger.strategy", "NUM_OR_TIME"),
        ("compaction.delta_commits", "3", "hoodie.compact.inline.max.delta.commits", 3),
        ("metadata.enabled", "false", "hoodie.metadata.enable", False),
    ],
)
def test_a_name_for_one_of_ours(key: str, value: str, canonical: str, parsed: object) -> None:
    options = resolve({key: value})
    assert options.given == {canonical: parsed}
    assert options.name_of(option(canonical)) == key


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("write.parquet.max.file.size", "in bytes by hoodie.parquet.max.file.size"),
        ("write.tasks", "leave it out"),
        ("read.start-commit", "hoodie.datasource.read.begin.instanttime"),
        ("read.streaming.enabled", "pudi.spark.stream_changes"),
        ("hive_sync.mode", "docs/catalogs.md"),
        ("index.rli.cache.size", "hoodie.index.type"),
        ("lookup.join.cache.type", "scan"),
        ("write.buffer.sort.keys", "hoodie.bulkinsert.sort.mode"),
        ("properties.hoodie.index.type", "without"),
        ("write.precombine", "hoodie.combine.before.upsert"),
    ],
)
def test_another_meaning(key: str, advice: str) -> None:
    with pytest.raises(NotSupportedError, match=rf"{key}=1 .*{advice}"):
        resolve({key: "1"})


def test_indexes_of_flinks_state() -> None:
    with pytest.raises(NotSupportedError, match=r"index\.type=FLINK_STATE"):
        resolve({"index.type": "FLINK_STATE"})


def test_both_names_with_two_values() -> None:
    with pytest.raises(InvalidArgumentError, match="are one setting, given two values"):
        resolve({"archive.max_commits": "40", "hoodie.keep.max.commits": "41"})
