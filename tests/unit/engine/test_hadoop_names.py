"""Roots and options of storages as Hadoop's connectors know them."""

from __future__ import annotations

import pytest

from pudi.engine.spark.hadoop import hadoop_options, hadoop_root
from pudi.errors import NotSupportedError
from pudi.storage import open_storage

HOST = "acme.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("root", "options", "name"),
    [
        ("s3://bucket/t", {}, "s3a://bucket/t"),
        ("s3n://bucket", {}, "s3a://bucket"),
        ("gs://bucket/t/", {}, "gs://bucket/t"),
        (f"abfss://lake@{HOST}/t", {}, f"abfss://lake@{HOST}/t"),
        ("wasbs://lake@acme.blob.core.windows.net/t", {}, f"abfss://lake@{HOST}/t"),
        ("az://lake/t", {"account_name": "acme"}, f"abfss://lake@{HOST}/t"),
        ("az://lake", {"AZURE_STORAGE_ACCOUNT_NAME": "acme"}, f"abfss://lake@{HOST}"),
        ("file:///data/t", {}, "file:///data/t"),
    ],
)
def test_roots(root: str, options: dict[str, str], name: str) -> None:
    assert hadoop_root(open_storage(root, options)) == name


def test_an_account_that_only_the_environment_names_is_read_without_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acme")
    storage = open_storage("az://lake/t")
    assert (hadoop_root(storage), hadoop_options(storage)) == (None, {})


def test_memory_has_no_name() -> None:
    with pytest.raises(NotSupportedError):
        hadoop_root(open_storage("memory://here"))


def test_options_of_s3() -> None:
    given = {
        "AWS_ACCESS_KEY_ID": "key",
        "secret_access_key": "secret",
        "endpoint": "http://localhost:9000",
        "region": "eu-1",
        "allow_http": "true",
        "user_agent": "x",
    }
    assert hadoop_options(open_storage("s3://bucket/t", given)) == {
        "fs.s3a.access.key": "key",
        "fs.s3a.secret.key": "secret",
        "fs.s3a.endpoint": "http://localhost:9000",
        "fs.s3a.endpoint.region": "eu-1",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "true",
    }
    assert hadoop_options(open_storage("s3://bucket/t")) == {}


def test_options_of_azure() -> None:
    root = f"abfss://lake@{HOST}/t"
    assert hadoop_options(open_storage(root, {"account_key": "a2V5"})) == {f"fs.azure.account.key.{HOST}": "a2V5"}
    assert hadoop_options(open_storage(root, {"azure_storage_sas_token": "?sv=1&sig=x"})) == {
        f"fs.azure.account.auth.type.{HOST}": "SAS",
        f"fs.azure.sas.fixed.token.{HOST}": "sv=1&sig=x",
    }
    client = {"client_id": "me", "client_secret": "hush", "tenant_id": "us", "account_name": "acme"}
    assert hadoop_options(open_storage("az://lake/t", client)) == {
        f"fs.azure.account.auth.type.{HOST}": "OAuth",
        f"fs.azure.account.oauth.provider.type.{HOST}": (
            "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
        ),
        f"fs.azure.account.oauth2.client.id.{HOST}": "me",
        f"fs.azure.account.oauth2.client.secret.{HOST}": "hush",
        f"fs.azure.account.oauth2.client.endpoint.{HOST}": "https://login.microsoftonline.com/us/oauth2/token",
    }


def test_options_of_google() -> None:
    assert hadoop_options(open_storage("gs://bucket/t")) == {}
