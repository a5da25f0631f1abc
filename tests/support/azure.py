"""Azure Blob Storage as Azurite emulates it, Microsoft's own emulator, in a process of its own."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from http.client import HTTPConnection
from pathlib import Path

INSTALLED = Path(__file__).parents[2] / ".azurite" / "node_modules" / ".bin" / "azurite-blob"
CONTAINER = "lake-of-tests"
ACCOUNT = "devstoreaccount1"
# The key that every Azurite has, from its documentation.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2021-08-06"


@dataclass(frozen=True)
class AzureServer:
    """A running Azurite with one container.

    Attributes:
        port: where it listens on this machine.
    """

    port: int

    def options(self) -> dict[str, str]:
        """Storage options that reach this server."""
        return {
            "account_key": KEY,
            "endpoint": f"http://127.0.0.1:{self.port}/{ACCOUNT}",
            "allow_http": "true",
        }

    def new_root(self) -> str:
        """A location with nothing in it."""
        return f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/tables/t {uuid.uuid4()}"

    def create_container(self) -> None:
        """Make the container, by a request signed with the account's key (obstore makes none)."""
        date = datetime.now(timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
        signed = (
            "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{VERSION}\n"
            f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
        )
        digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
        headers = {
            "x-ms-date": date,
            "x-ms-version": VERSION,
            "Content-Length": "0",
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
        }
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("PUT", f"/{ACCOUNT}/{CONTAINER}?restype=container", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
        connection.close()


def find_azurite() -> str | None:
    """The emulator: as `make setup` installs it, or on the path; None where it's neither, or there is no Node.js."""
    if shutil.which("node") is None:
        return None
    return str(INSTALLED) if INSTALLED.exists() else shutil.which("azurite-blob")


@contextmanager
def serve_azure(program: str) -> Iterator[AzureServer]:
    """A server that runs inside the block, with its container. What it holds is in memory."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry")
    process = subprocess.Popen(
        [program, *options, "--blobPort", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait(process, port)
        served = AzureServer(port)
        served.create_container()
        yield served
    finally:
        process.terminate()
        process.wait(120)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 180
    while True:
        assert process.poll() is None, "Azurite ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < deadline, "Azurite doesn't answer"
            time.sleep(0.1)
        else:
            return
