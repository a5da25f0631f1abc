"""A real Trino server with its Hudi connector: the server's archive from Maven Central, which `mvn` keeps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.rows import Row, plain
from support.zookeeper import free_port

VERSION = "476"
"""The newest that Maven Central has as a server. It brings hudi-common 1.0.2 and needs Java 24 or later."""

_ARCHIVE = f"io/trino/trino-server/{VERSION}/trino-server-{VERSION}.tar.gz"


def new_java() -> Path | None:
    """A Java that Trino runs on: that of `PUDI_TRINO_JAVA_HOME`, or one in the usual place."""
    homes = [os.environ.get("PUDI_TRINO_JAVA_HOME", ""), *map(str, Path("/usr/lib/jvm").glob("*-2[4-9]*"))]
    return next((java for java in (Path(home) / "bin" / "java" for home in homes if home) if java.exists()), None)


def unpacked() -> Path | None:
    """The server's folder, fetched and unpacked once for all runs; None if it can't be had here."""
    kept = Path(tempfile.gettempdir()) / f"pudi-trino-server-{VERSION}"
    if kept.exists():
        return kept
    archive = Path.home() / ".m2" / "repository" / _ARCHIVE
    if not archive.exists():
        if shutil.which("mvn") is None:
            return None
        wanted = f"-Dartifact=io.trino:trino-server:{VERSION}:tar.gz"
        fetch = ["mvn", "-B", "-q", "dependency:get", wanted, "-Dtransitive=false"]
        subprocess.run(fetch, capture_output=True, timeout=600, check=False)
        if not archive.exists():
            return None
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        whole = Path(folder) / f"trino-server-{VERSION}"
        for plugin in (whole / "plugin").iterdir():  # whose files are hard links: what hudi has of theirs stays
            if plugin.name != "hudi":
                shutil.rmtree(plugin)
        whole.rename(kept)
    return kept


@dataclass
class Trino:
    """A server that runs.

    Attributes:
        port: where it listens.
        metastore: URI of the Hive Metastore that it finds tables in.
    """

    port: int
    metastore: str

    def rows(self, table: str) -> list[Row]:
        """A table's rows.

        Raises:
            RuntimeError: Trino can't read it.
        """
        who = {"X-Trino-User": "pudi", "X-Trino-Catalog": "hudi", "X-Trino-Schema": "default"}
        address = f"http://127.0.0.1:{self.port}/v1/statement"
        asked: Any = urllib.request.Request(address, data=f"SELECT * FROM {table}".encode(), headers=who)
        found: list[Row] = []
        while True:
            with urllib.request.urlopen(asked, timeout=60) as reply:
                answer = json.load(reply)
            if "error" in answer:
                raise RuntimeError(answer["error"]["message"])
            names = [column["name"] for column in answer.get("columns") or []]
            found += [plain(dict(zip(names, row, strict=True))) for row in answer.get("data") or []]
            if "nextUri" not in answer:
                return found
            asked = answer["nextUri"]

    def register(self, spark: Any, path: Path, name: str, partition_fields: list[str]) -> None:
        """Tell the metastore of a table, by Hudi's sync tool."""
        extractor = "MultiPartKeysValueExtractor" if partition_fields else "NonPartitionedExtractor"
        sync = "hoodie.datasource.hive_sync."
        settings = {
            f"{sync}mode": "hms",
            f"{sync}metastore.uris": self.metastore,
            f"{sync}database": "default",
            f"{sync}table": name,
            f"{sync}partition_fields": ",".join(partition_fields),
            f"{sync}partition_extractor_class": f"org.apache.hudi.hive.{extractor}",
            "hoodie.datasource.meta.sync.base.path": f"file:{path}",
            "hoodie.metadata.enable": "false",
        }
        jvm = spark._jvm
        properties = jvm.java.util.Properties()
        for key, value in settings.items():
            properties.setProperty(key, value)
        configuration = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
        configuration.set("hive.metastore.uris", self.metastore)
        tool = jvm.org.apache.hudi.hive.HiveSyncTool(properties, configuration)
        tool.syncHoodieTable()
        tool.close()


@contextmanager
def serve_trino(java: Path, server: Path, folder: Path, metastore: str) -> Iterator[Trino]:
    """Run a server until the block ends."""
    port = free_port()
    catalogs = folder / "catalog"
    catalogs.mkdir()
    (catalogs / "hudi.properties").write_text(
        f"connector.name=hudi\nhive.metastore.uri={metastore}\nfs.hadoop.enabled=true\n"
    )
    (folder / "log.properties").write_text("io.trino=WARN\n")
    (folder / "config.properties").write_text(
        "coordinator=true\nnode-scheduler.include-coordinator=true\n"
        f"http-server.http.port={port}\ndiscovery.uri=http://127.0.0.1:{port}\n"
        "query.max-memory-per-node=300MB\nmemory.heap-headroom-per-node=200MB\n"
    )
    settings = {
        "node.environment": "test",
        "node.id": "one",
        "node.data-dir": folder / "data",
        "config": folder / "config.properties",
        "log.levels-file": folder / "log.properties",
        "catalog.config-dir": catalogs,
        "plugin.dir": server / "plugin",
        "jdk.attach.allowAttachSelf": "true",
    }
    command = [str(java), "-Xmx1200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["--add-modules=jdk.incubator.vector", *(f"-D{key}={value}" for key, value in settings.items())]
    command += ["-cp", f"{server}/lib/*", "io.trino.server.TrinoServer"]
    log = folder / "log"
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, cwd=folder) as process:
        try:
            _wait(port, process, log)
            yield Trino(port, metastore)
        finally:
            process.kill()


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until it takes queries."""
    end = time.monotonic() + 180
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/info", timeout=5) as reply:
                if not json.load(reply)["starting"]:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"Trino didn't start: {log.read_text(errors='replace')[-3000:]}")
