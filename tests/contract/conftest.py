"""The servers that the contract tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.azure import AzureServer, find_azurite, serve_azure
from support.gcs import GcsServer, serve_gcs
from support.hive import serve_hive
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


@pytest.fixture(scope="session")
def azure() -> Iterator[AzureServer]:
    program = find_azurite()
    if program is None:
        pytest.skip("Azurite isn't installed: make setup does it where there is npm")
    with serve_azure(program) as served:
        yield served


@pytest.fixture(scope="session")
def gcs() -> Iterator[GcsServer]:
    with serve_gcs() as served:
        yield served


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URI of a Hive Metastore."""
    pytest.importorskip("thrift")
    with serve_hive(tmp_path_factory.mktemp("hive")) as served:
        yield served
