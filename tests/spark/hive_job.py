"""Run statements in a Spark session with a Hive catalog: python hive_job.py FOLDER REMOTE SETTINGS; JSON in and out.

REMOTE is the address of a Connect server, or empty; SETTINGS are those of a session that isn't remote.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.sql import SparkSession

import pudi.spark
from support import spark as spark_support


def main(folder: str, remote: str, settings: str) -> None:
    """Print for each statement its rows, or its error."""
    if remote:
        spark = SparkSession.builder.remote(remote).getOrCreate()
    else:
        conf = {"spark.sql.catalogImplementation": "hive", "spark.driver.memory": "1g", **json.loads(settings)}
        spark = spark_support.start(Path(folder), {"spark.sql.codegen.wholeStage": "false", **conf})
    answers: list[object] = []
    for text in json.loads(sys.stdin.read()):
        try:
            answers.append([list(row) for row in pudi.spark.sql(spark, text).collect()])
        except Exception as error:  # noqa: BLE001 - the test asks what any error says
            answers.append(f"{type(error).__name__}: {error}")
    print("ANSWERS" + json.dumps(answers, default=str), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
