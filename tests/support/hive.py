"""A real Hive Metastore on Derby: its classes lie among PySpark's jars."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.zookeeper import JARS, free_port, wait_for

SOURCE = Path(__file__).with_name("HiveServer.java")
OPENS = ["java.base/java.lang", "java.base/java.net", "java.base/java.util", "java.base/java.nio"]

LOCK_SECONDS = 6
"""After so long without a heartbeat a lock is gone."""


def tls_settings(folder: Path) -> tuple[dict[str, str], Path]:
    """Make a certificate for 127.0.0.1; the settings of a metastore that shows it, and its file as PEM."""
    store, certificate = folder / "keys.jks", folder / "metastore.pem"
    at = ["-keystore", str(store), "-alias", "metastore", "-storepass", "secret"]
    made = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=metastore", "-ext", "san=ip:127.0.0.1", "-keypass", "secret"]
    subprocess.run(["keytool", *made, *at], check=True, capture_output=True)
    subprocess.run(["keytool", "-exportcert", "-rfc", "-file", certificate, *at], check=True, capture_output=True)
    settings = {"use.SSL": "true", "keystore.path": str(store), "keystore.password": "secret"}
    return {f"hive.metastore.{key}": value for key, value in settings.items()}, certificate


@contextmanager
def serve_hive(
    folder: Path, processes: list[subprocess.Popen[bytes]] | None = None, more: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a metastore until the block ends; its URI.

    Args:
        folder: has its database; a later metastore goes on with it.
        processes: takes the server's process, so that a test can kill it.
        more: further settings.
    """
    port = free_port()
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'db'};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(folder / "warehouse"),
        "hive.async.log.enabled": "false",
        "hive.txn.timeout": f"{LOCK_SECONDS}s",
        **(more or {}),
    }
    rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (folder / "hive-site.xml").write_text(f"<configuration>{rows}</configuration>")
    (folder / "hive-log4j2.properties").write_text(
        "appenders=out\nappender.out.type=Console\nappender.out.name=out\nappender.out.layout.type=PatternLayout\n"
        "appender.out.layout.pattern=%p %c: %m%n%throwable\nrootLogger.level=ERROR\n"
        "rootLogger.appenderRefs=out\nrootLogger.appenderRef.out.ref=out\n"
    )
    log = folder / "log"
    java = ["java", "-XX:TieredStopAtLevel=1", "-Xmx384m", f"-Dderby.system.home={folder}"]
    java += [f"--add-opens={each}=ALL-UNNAMED" for each in OPENS]
    java += ["-cp", f"{folder}:{JARS}/*", str(SOURCE), "-p", str(port)]
    with log.open("wb") as out, subprocess.Popen(java, stdout=out, stderr=out, cwd=folder) as process:
        if processes is not None:
            processes.append(process)
        try:
            wait_for(port, process, log)
            yield f"thrift://127.0.0.1:{port}"
        finally:
            process.kill()
