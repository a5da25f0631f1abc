"""A Spark Connect server in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def has_connect() -> bool:
    """Return whether this pyspark brings a Connect server (from 4.0 on) and its client's packages are there."""
    jars = _pyspark().glob("jars/spark-connect_*.jar")
    return any(jars) and all(importlib.util.find_spec(name) for name in ("grpc", "grpc_status", "pandas"))


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def start_server(folder: Path, port: int, more: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a server, and wait until it takes connections.

    Args:
        folder: takes its files, and what it prints.
        port: where it listens.
        more: settings of Spark besides.
    """
    folder.mkdir(exist_ok=True)
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={folder}",
        **(more or {}),
    }
    confs = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    submit = [str(_pyspark() / "bin" / "spark-submit"), "--master", "local[2]", "--class", _SERVER]
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(
            [*submit, *confs, "spark-internal"],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(_pyspark())},
            stdout=log,
            stderr=log,
        )
    while True:
        assert server.poll() is None, (folder / "server.log").read_text(encoding="utf-8")[-4000:]
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return server
        time.sleep(0.2)


def _pyspark() -> Path:
    found = importlib.util.find_spec("pyspark")
    return Path(str(found.origin)).parent if found else Path(os.devnull)
