"""A table in a bucket, written and read by a Spark that has no S3 connector of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import pudi

pytest.importorskip("boto3", reason="the environment of Spark 4 has none")

from support.s3 import S3Server, serve_s3


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with serve_s3() as server:
        yield server


@pytest.mark.spark
def test_every_verb_and_read(spark: Any, s3: S3Server) -> None:
    frame = spark.range(0, 40, 1, 2).selectExpr("id", "concat('p', id % 2) as place", "'a' as note")
    table = pudi.create(
        s3.new_root(), frame.schema, record_key="id", partition_by="place", storage_options=s3.options()
    )
    first = table.bulk_insert(frame)
    table.upsert(frame.filter("id < 10").selectExpr("id", "place", "'b' as note"))
    table.delete(frame.filter("id >= 30").select("id", "place"))

    opened = pudi.Table(table.path, storage_options=s3.options())
    assert sorted((r["id"], r["note"]) for r in opened.scan(["id", "note"]).to_spark(spark).collect()) == [
        (n, "b" if n < 10 else "a") for n in range(30)
    ]
    assert opened.scan(as_of=first.instant, where="note = 'a'").to_spark(spark).count() == 40
    assert opened.changes(since=first.completion_time).to_spark(spark).count() == 10
