"""All verbs over Spark Connect; run by test_connect.py. Prints one JSON line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import SparkSession

import pudi

FOLDER = Path(sys.argv[1])


def statements(spark: SparkSession) -> list[list[object]]:
    """A table without record keys by SQL: what merges and updates leave."""
    for text in (
        f"CREATE TABLE rides (id INT, fare DECIMAL(6,2), city STRING) USING hudi LOCATION '{FOLDER}/rides'",
        "INSERT INTO rides VALUES (1, 1.005, 'rome'), (2, 2, 'oslo'), (3, 3, 'oslo')",
        "UPDATE rides SET fare = fare * 2 WHERE fare = (SELECT min(fare) FROM rides)",
        "MERGE INTO rides t USING (SELECT 2 AS id, 0.555 AS fare UNION ALL SELECT 9, 9) s ON t.id > s.id "
        "WHEN MATCHED THEN UPDATE SET fare = t.fare + s.fare WHEN NOT MATCHED AND s.id > 5 THEN INSERT (id, fare) "
        "VALUES (s.id, s.fare)",
        "DELETE FROM rides WHERE city = 'oslo' AND id = 2",
    ):
        pudi.spark.sql(spark, text).collect()
    found = pudi.spark.sql(spark, "SELECT id, CAST(fare AS STRING), city FROM rides ORDER BY id").collect()
    return [list(row) for row in found]


def main() -> None:
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.local.dir": str(FOLDER / "l")}
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    frame = spark.range(100).selectExpr("id", "concat('p', id % 3) as place", "id as ts", "'a' as note")
    answers: dict[str, object] = {"class": type(frame).__module__}
    table = pudi.create(FOLDER / "t", frame.schema, record_key="id", partition_by="place", ordering="ts")
    answers["bulk_insert"] = table.bulk_insert(frame).records_inserted
    update = frame.filter("id < 10").selectExpr("id + 95 as id", "concat('p', (id + 95) % 3) as place", "id + 95 as ts")
    result = table.upsert(update.selectExpr("*", "'b' as note"))
    answers["upsert"] = [result.records_updated, result.records_inserted]
    answers["insert"] = table.insert(
        frame.selectExpr("id + 1000 as id", "place", "ts", "note").limit(3)
    ).records_inserted
    answers["delete"] = table.delete(frame.filter("id < 4")).records_deleted
    answers["notes"] = {r[0]: r[1] for r in table.scan().to_spark(spark).groupBy("note").count().collect()}
    answers["filtered"] = table.scan(["id"], where="place = 'p1' AND id < 10").to_spark(spark).count()
    pudi.spark.write(frame).options(**{"hoodie.datasource.write.recordkey.field": "id"}).save(FOLDER / "two")
    answers["save"] = pudi.Table(FOLDER / "two").scan().to_spark(spark).count()
    late = pudi.create(FOLDER / "mor", frame.schema, record_key="id", ordering="ts", table_type="mor")
    late.bulk_insert(frame)
    late.upsert(frame.filter("id < 10").selectExpr("id", "place", "ts + 1 as ts", "'b' as note"))
    late.delete(frame.filter("id < 4"))
    answers["log files"] = sum(len(s.logs) for s in late.file_slices())
    answers["merged"] = {r[0]: r[1] for r in late.scan().to_spark(spark).groupBy("note").count().collect()}
    answers["compacted"] = late.compact(spark=spark).operation
    answers["read-optimized"] = late.scan(read_optimized=True).to_spark(spark).count()
    beside = {"hoodie.datasource.compaction.async.enable": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    late.upsert(frame.filter("id < 10"), options=beside)
    answers["beside"] = [str(late.wait_for_services()), sum(len(s.logs) for s in late.file_slices())]
    answers["read-modify-write"] = read_modify_write(table, spark)
    answers["streams"] = streams(spark)
    answers["sql"] = statements(spark)
    try:
        table.upsert(frame.selectExpr("cast(null as bigint) as id", "place", "ts", "note"))
    except pudi.InvalidArgumentError as error:
        answers["null_key"] = str(error)
    spark.stop()
    print(json.dumps(answers))


def streams(spark: SparkSession) -> list[object]:
    """Rows that a query wrote from files, and changes that a stream of the table brought by batch and by name."""
    source, target, brought = str(FOLDER / "files"), FOLDER / "target", []
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.operation": "insert"}
    for number in range(2):
        spark.range(number * 10, number * 10 + 10, 1, 1).write.mode("append").parquet(source)
        writer = pudi.spark.stream_writer(spark.readStream.schema("id long").parquet(source)).options(**options)
        writer = writer.option("checkpointLocation", str(FOLDER / "files-checkpoint")).trigger(availableNow=True)
        started(partial(writer.start, target)).awaitTermination()
        started(
            lambda: pudi.spark.stream_changes(
                spark, target, lambda changes, number: brought.append(changes.count()),
                checkpoint=FOLDER / "changes-checkpoint", available_now=True,
            )
        ).awaitTermination()  # fmt: skip
    pudi.spark.register(spark)
    named = spark.read.format("pudi").option("columns", "id").load(str(target))
    return [brought, sorted(row[0] for row in named.collect()) == list(range(20))]


def started(start: Callable[[], Any]) -> Any:
    """Start a query, again if a Python worker didn't come up in the ten seconds that Spark gives it."""
    for _ in range(4):
        try:
            return start()
        except Exception as error:
            if "Python worker to connect back" not in str(error):
                raise
    return start()


def read_modify_write(table: pudi.Table, spark: SparkSession) -> list[object]:
    """What two writers of one scan are told, and what the row is then."""
    scan, told = table.scan(where="id = 50", meta_fields=False), []
    raised = scan.to_spark(spark).selectExpr("id", "place", "ts + 1000 as ts", "'c' as note")
    for verb in (table.upsert, table.upsert):
        try:
            told.append(verb(raised, if_unchanged_since=scan.instant).records_updated)
        except pudi.ChangedSinceError as error:
            told.append(type(error).__name__)
    for row in table.scan(["ts", "note"], where="id = 50").to_spark(spark).collect():
        told.append(list(row))
    return told


if __name__ == "__main__":
    main()
