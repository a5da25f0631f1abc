"""The S3 server that the contract tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.s3 import S3Server, serve_s3


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with serve_s3() as served:
        yield served


@pytest.fixture
def s3(s3_server: S3Server) -> S3Server:
    """The server, without faults left over."""
    s3_server.faults.clear()
    s3_server.requests.clear()
    return s3_server
