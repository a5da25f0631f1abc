"""Hive Metastores of releases 3.1 and 4 on Derby: their jars from Maven Central, which `mvn` keeps."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.hive import OPENS
from support.zookeeper import free_port, wait_for

RELEASES = {
    "3.1.3": (
        "org.apache.hive:hive-standalone-metastore:3.1.3",
        "org.apache.hadoop:hadoop-common:3.1.0",
        "org.apache.hadoop:hadoop-mapreduce-client-core:3.1.0",
        "org.apache.derby:derby:10.14.1.0",
    ),
    "4.0.1": (
        "org.apache.hive:hive-standalone-metastore-server:4.0.1",
        "org.apache.hadoop:hadoop-common:3.3.6",
        "org.apache.hadoop:hadoop-mapreduce-client-core:3.3.6",
        "org.apache.hadoop:hadoop-hdfs:3.3.6",
        "org.apache.derby:derby:10.14.2.0",
    ),
}
"""Packages by release; Hadoop's are provided, so the metastore's own don't name them."""

_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


def jars_of(release: str) -> Path | None:
    """The folder of a release's jars, fetched once for all runs; None if they can't be had here."""
    kept = Path(tempfile.gettempdir()) / f"pudi-hive-metastore-{release}"
    if kept.exists():
        return kept
    if shutil.which("mvn") is None:
        return None
    packages = "".join(_DEPENDENCY.format(*package.split(":")) for package in RELEASES[release])
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        Path(folder, "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>pudi</groupId><artifactId>metastore</artifactId>"
            f"<version>1</version><dependencies>{packages}</dependencies></project>"
        )
        fetch = ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
        done = subprocess.run(fetch, cwd=folder, capture_output=True, timeout=900, check=False)
        if done.returncode:
            return None
        Path(folder, "jars").rename(kept)
    return kept


@contextmanager
def serve_release(release: str, jars: Path, folder: Path) -> Iterator[str]:
    """Run a metastore until the block ends; its address."""
    port = free_port()
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'db'};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "NONE",
        "metastore.schema.verification": "false",
        "metastore.warehouse.dir": str(folder / "warehouse"),
        "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        "metastore.task.threads.remote": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
    }
    rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (folder / "metastore-site.xml").write_text(f"<configuration>{rows}</configuration>")
    log = folder / f"log-{release}"
    java = ["java", "-XX:TieredStopAtLevel=1", "-Xmx512m", f"-Dderby.system.home={folder}"]
    java += [f"--add-opens={each}=ALL-UNNAMED" for each in OPENS]
    java += ["-cp", f"{folder}:{jars}/*", "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    with log.open("wb") as out, subprocess.Popen(java, stdout=out, stderr=out, cwd=folder) as process:
        try:
            wait_for(port, process, log, 120)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()
