"""Other releases of Apache Hudi than the suite's: each in a process of its own, since a JVM holds one bundle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

RELEASES = {"0.15.0": (6,), "1.0.2": (6, 8), "1.1.1": (6, 8, 9)}
"""The table versions of each release that pudi writes too."""

_REPLY = "\x01reply "


class OtherHudi:
    """A session of Spark 3.5 with the bundle of one release; `close` ends it.

    Args:
        release: version of the bundle.
        folder: for the session's files, and for data on its way.
    """

    def __init__(self, release: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.release, self._folder, self._sent = release, folder, 0
        tests, sources = Path(__file__).parents[1], Path(__file__).parents[2] / "src"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_GATEWAY", "SPARK_"))}
        self._log = (folder / "log.txt").open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.other_hudi", release, str(folder)],
            env={**inherited, "PYTHONPATH": f"{sources}{os.pathsep}{tests}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def write(self, path: Path, verb: str, data: pa.Table, options: Mapping[str, str], mode: str = "append") -> None:
        """Write records by a verb of Hudi's."""
        self._sent += 1
        file = self._folder / f"{self._sent}.parquet"
        pq.write_table(data, file)
        self._ask(
            {"do": "write", "path": str(path), "data": str(file), "verb": verb, "options": dict(options), "mode": mode}
        )

    def read(self, path: Path, **options: str) -> list[dict[str, Any]]:
        """The rows of a table by key, without meta fields; options of Hudi's reader."""
        return self._ask({"do": "read", "path": str(path), "options": options})

    def sql(self, text: str) -> list[dict[str, Any]]:
        """Run a statement of Spark's SQL."""
        return self._ask({"do": "sql", "text": text})

    def close(self) -> None:
        """End the session."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._log.close()

    def _ask(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(_REPLY):
                answer = json.loads(line.removeprefix(_REPLY))
                if "error" in answer:
                    raise AssertionError(f"Hudi {self.release}, {request['do']}: {answer['error']}")
                rows: list[dict[str, Any]] = answer["rows"]
                return rows
        raise AssertionError(f"Hudi {self.release} died; see {self._folder / 'log.txt'}")


def _serve(release: str, folder: Path) -> None:
    from support.hudi import PACKAGE, SESSION, SMALL
    from support.spark import start, to_frame

    package = PACKAGE.rpartition(":")[0] + f":{release}"
    conf = {**SESSION, "spark.jars.packages": package, "spark.driver.memory": "1g"}
    spark = start(folder, conf)

    def answer(asked: dict[str, Any]) -> list[dict[str, Any]]:
        if asked["do"] == "write":
            frame = to_frame(spark, pq.read_table(asked["data"])).coalesce(1)
            options = {**SMALL, **asked["options"], "hoodie.datasource.write.operation": asked["verb"]}
            frame.write.format("hudi").options(**options).mode(asked["mode"]).save(asked["path"])
            return []
        if asked["do"] == "sql":
            return [row.asDict(recursive=True) for row in spark.sql(asked["text"]).collect()]
        frame = spark.read.format("hudi").options(**asked["options"]).load(asked["path"])
        frame = frame.select(*(name for name in frame.columns if not name.startswith("_hoodie_")))
        return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: str(list(row.values())))

    for line in sys.stdin:
        try:
            reply: dict[str, Any] = {"rows": answer(json.loads(line))}
        except Exception as error:  # noqa: BLE001
            reply = {"error": f"{type(error).__name__}: {error}"[:20_000]}
        print(_REPLY + json.dumps(reply), flush=True)
    spark.stop()


if __name__ == "__main__":
    _serve(sys.argv[1], Path(sys.argv[2]))
