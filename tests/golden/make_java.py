"""Makes golden tables of versions 1 to 4 with Hudi's Java client: `python make_java.py JARS SPARK_JARS`.

The bundles of Hudi before 0.13 don't run on Java 17, or aren't on Maven Central; the Java client does and is. JARS
holds a folder for each release, `0.8.0`, `0.9.0`, `0.10.1` and `0.11.1`, with what `mvn dependency:copy-dependencies`
brings for hudi-java-client of that release (without jdk.tools) and parquet-avro 1.12.2; SPARK_JARS is the folder `jars`
of a PySpark 3.2, whose Hadoop, Avro and Parquet run on Java 17. What the tables hold is as Apache Hudi 1.2 reads
them through Spark 3.5, so this runs in the environment of the tests.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from make_old import FOLDER, OPENED, answer

from support import spark as spark_support
from support.hudi import SESSION

RECIPES = {
    "v1_cow_basic": ("0.8.0", "COPY_ON_WRITE", 0),
    "v2_cow_archived": ("0.9.0", "COPY_ON_WRITE", 5),
    "v3_mor_basic": ("0.10.1", "MERGE_ON_READ", 0),
    "v4_mor_basic": ("0.11.1", "MERGE_ON_READ", 0),
}


def write(jars, spark_jars, path, release, kind, further):
    """Compile the writer for a release, and let it write a table."""
    own = [str(jar) for jar in sorted(Path(jars, release).glob("*.jar"))]
    hudi = [jar for jar in own if "/hudi-" in jar or "/parquet-avro" in jar]
    classes = ":".join([*hudi, f"{spark_jars}/*", *own])
    with tempfile.TemporaryDirectory() as made:
        source = str(FOLDER / "OldTables.java")
        subprocess.run(["javac", "-nowarn", "-cp", classes, "-d", made, source], check=True)
        opened = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in OPENED]
        run = ["java", *opened, "-Duser.timezone=UTC", "-cp", f"{made}:{classes}"]
        subprocess.run([*run, "OldTables", str(path), kind, str(further)], check=True, capture_output=True)


def make(spark, jars, spark_jars, name, folder):
    """Write a table, ask Hudi 1.2 what it holds, pack both."""
    release, kind, further = RECIPES[name]
    path = folder / name
    write(jars, spark_jars, path, release, kind, further)
    completed = {".commit", ".deltacommit"}
    instants = sorted(each.stem for each in (path / ".hoodie").iterdir() if each.suffix in completed)
    expected = {
        "name": name,
        "hudi": release,
        "read_by": "1.2.0",
        "instants": [[instant, instant, "commit"] for instant in instants],
        "snapshot": answer(spark.read.format("hudi").load(str(path))),
    }
    (FOLDER / "expected" / f"{name}.json").write_text(json.dumps(expected, sort_keys=True, ensure_ascii=False), "utf-8")
    with zipfile.ZipFile(FOLDER / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(path.rglob("*")):
            if not file.name.endswith(".crc"):
                archive.write(file, file.relative_to(folder))


def main(jars, spark_jars):
    """Make all that are missing."""
    with tempfile.TemporaryDirectory() as folder:
        spark = spark_support.start(Path(folder), SESSION)
        for name in RECIPES:
            if not (FOLDER / f"{name}.zip").exists():
                make(spark, jars, spark_jars, name, Path(folder))
                print(f"made {name}", flush=True)
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
