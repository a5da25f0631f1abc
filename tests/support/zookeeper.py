"""A real ZooKeeper server: its classes lie among PySpark's jars."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

JARS = Path(pyspark.__file__).parent / "jars"


@dataclass
class ZookeeperServer:
    """A server of its own.

    Attributes:
        hosts: where it listens.
        process: its process.
    """

    hosts: str
    process: subprocess.Popen[bytes]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path, seconds: float = 180) -> None:
    """Wait until something listens."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"the server didn't start: {log.read_text(errors='replace')[-3000:]}")


@contextmanager
def serve_zookeeper(folder: Path) -> Iterator[ZookeeperServer]:
    """Run a server until the block ends. Sessions end after a quarter of a second at the earliest."""
    port = free_port()
    config = folder / "zoo.cfg"
    config.write_text(
        f"dataDir={folder / 'data'}\nclientPort={port}\ntickTime=125\nminSessionTimeout=250\nmaxSessionTimeout=60000\n"
        "admin.enableServer=false\nforceSync=no\nmaxClientCnxns=0\n"
    )
    log = folder / "log"
    quiet = ["-Dlog4j2.level=WARN", "-Dlog4j.configurationFile=", "-XX:TieredStopAtLevel=1", "-Xmx192m"]
    java = ["java", *quiet, "-cp", f"{JARS}/*", "org.apache.zookeeper.server.ZooKeeperServerMain", str(config)]
    with log.open("wb") as out, subprocess.Popen(java, stdout=out, stderr=out) as process:
        try:
            wait_for(port, process, log)
            yield ZookeeperServer(f"127.0.0.1:{port}", process)
        finally:
            process.kill()
