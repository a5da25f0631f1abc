"""Makes golden tables of version 5 with Apache Hudi 0.13.1, which runs on Spark 3.2: `python make_old.py BUNDLE NAME…`.

It stands alone, for an environment with PySpark 3.2 (Python 3.9 or earlier) and Java 17; BUNDLE is the file of
hudi-spark3.2-bundle_2.12:0.13.1 from Maven Central. What it makes is as `make.py` says. Bundles of releases before 0.13
don't run here, as they need Java 8 or aren't on Maven Central: `make_java.py` lets Hudi's Java client make such.
"""

import json
import os
import re
import sys
import tempfile
import zipfile
from pathlib import Path

OPENED = [
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
]
OPENED += ["java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"]
FOLDER = Path(__file__).parent
OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.index.bloom.num_entries": "1000",
    "hoodie.embed.timeline.server": "false",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
}
RECIPES = {
    "v5_cow_basic": {"hoodie.metadata.enable": "true"},
    "v5_cow_archived": {
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.cleaner.commits.retained": "2",
    },
    "v5_mor_basic": {"hoodie.metadata.enable": "true"},
    "v5_mor_compacted": {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"},
}
CITIES = ("nyc", "sf")


def _writes():
    def trip(n, ts, rider):
        return (f"k{n:02}", ts, rider, n * 1.5, CITIES[n % 2])

    yield "insert", [trip(n, 10, "ann") for n in range(12)]
    yield "upsert", [trip(n, 20, "bob") for n in range(4)] + [trip(20, 20, "new"), trip(5, 5, "late")]
    yield "delete", [trip(n, 30, "") for n in (6, 7)]
    yield "upsert", [trip(n, 40, "cid") for n in (1, 8)]
    yield "insert_overwrite", [trip(31, 50, "over")]
    yield "upsert", [trip(n, 60, "dan") for n in (2, 31)]
    yield "upsert", [trip(n, 70, "eve") for n in (4, 33)]


def answer(frame):
    rows = [row.asDict() for row in frame.collect()]
    return {
        "schema": json.loads(frame.schema.json()),
        "rows": sorted(rows, key=lambda row: json.dumps(row, sort_keys=True)),
    }


def make(spark, name, more, folder):
    """Write the table, ask Hudi all queries, pack both."""
    path = folder / name
    kind = "MERGE_ON_READ" if "mor" in name else "COPY_ON_WRITE"
    options = {**OPTIONS, **more, "hoodie.datasource.write.table.type": kind}
    for number, (operation, rows) in enumerate(_writes()):
        frame = spark.createDataFrame(rows, "uuid string, ts long, rider string, fare double, city string").coalesce(1)
        writer = frame.write.format("hudi").options(**options).option("hoodie.datasource.write.operation", operation)
        writer.mode("append" if number else "overwrite").save(str(path))
    names = (
        re.fullmatch(r"(\d+)\.(commit|deltacommit|replacecommit)", each.name) for each in (path / ".hoodie").iterdir()
    )
    instants = sorted(found[1] for found in names if found)

    def ask(**asked):
        return answer(spark.read.format("hudi").options(**asked).load(str(path)))

    expected = {
        "name": name,
        "hudi": "0.13.1",
        "options": dict(sorted(options.items())),
        "instants": [[instant, instant, "commit"] for instant in instants],
        "snapshot": ask(),
    }
    for instant in instants:
        expected[f"as_of:{instant}"] = ask(**{"as.of.instant": instant})
    for since in ["000", *instants]:
        begin = "hoodie.datasource.read.begin.instanttime"
        expected[f"incremental_after:{since}"] = ask(**{"hoodie.datasource.query.type": "incremental", begin: since})
    (FOLDER / "expected" / f"{name}.json").write_text(json.dumps(expected, sort_keys=True, ensure_ascii=False), "utf-8")
    with zipfile.ZipFile(FOLDER / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(path.rglob("*")):
            if not file.name.endswith(".crc"):
                archive.write(file, file.relative_to(folder))


def main(bundle, names):
    """Make the named tables, or all."""
    from pyspark.sql import SparkSession

    os.environ["JAVA_TOOL_OPTIONS"] = " ".join(f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in OPENED)
    settings = {
        "spark.jars": bundle,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or RECIPES:
            make(spark, name, RECIPES[name], Path(folder))
            print(f"made {name}: {(FOLDER / f'{name}.zip').stat().st_size // 1024} KiB", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
