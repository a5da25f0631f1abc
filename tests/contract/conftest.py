"""The S3 server that the contract tests share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest
from werkzeug.serving import make_server

from support.s3 import BUCKET, S3Server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    served = S3Server()
    server = make_server("127.0.0.1", 0, served, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.port}"
    served.client().create_bucket(Bucket=BUCKET)
    yield served
    server.shutdown()
    thread.join()


@pytest.fixture
def s3(s3_server: S3Server) -> S3Server:
    """The server, without faults left over."""
    s3_server.faults.clear()
    s3_server.requests.clear()
    return s3_server
