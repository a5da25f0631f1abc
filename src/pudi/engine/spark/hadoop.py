"""Storages as Hadoop file systems, which Spark reads: roots and options, mapped in this one place."""

from __future__ import annotations

from collections.abc import Mapping

from pudi.context import Storage
from pudi.errors import NotSupportedError
from pudi.storage import StorageKind, canonical_root, connection_options, place_of, storage_kind

_S3A = {
    "access_key_id": "fs.s3a.access.key",
    "secret_access_key": "fs.s3a.secret.key",
    "session_token": "fs.s3a.session.token",
    "token": "fs.s3a.session.token",
    "endpoint": "fs.s3a.endpoint",
    "endpoint_url": "fs.s3a.endpoint",
    "region": "fs.s3a.endpoint.region",
}
"""Settings of Hadoop's S3 connector by obstore's names, without `aws_` before them."""

_AZURE_HOST = "dfs.core.windows.net"
_AZURE_OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"


def hadoop_root(storage: Storage) -> str | None:
    """A storage's root as Spark names it; None where Hadoop has no name for it.

    Raises:
        NotSupportedError: it's memory of this process.
    """
    kind = storage_kind(storage.root)
    if kind is StorageKind.MEMORY:
        raise NotSupportedError(
            "a memory:// table lives in this process only, where Spark can't read it: use a path or a bucket",
            table=storage.root,
        )
    root = canonical_root(storage.root).rstrip("/")
    if kind is StorageKind.LOCAL:
        return f"file://{root}"
    place = place_of(storage.root)
    if place.scheme == "az":  # Hadoop wants the account in the URL
        account = _azure_account(storage)
        return f"abfss://{place.container}@{account}.{_AZURE_HOST}/{place.prefix}".rstrip("/") if account else None
    return f"s3a:{root.removeprefix('s3:')}" if place.scheme == "s3" else root


def hadoop_options(storage: Storage) -> dict[str, str]:
    """Return options for Spark's reader so that Hadoop's connector uses the same access as `storage_options`.

    Those that have no counterpart are left out; Hadoop then takes the cluster's configuration.
    """
    if storage_kind(storage.root) is not StorageKind.OBJECTS:
        return {}
    place, given = place_of(storage.root), connection_options(storage)
    names = {place.kind.plain_name(name): value for name, value in given.items()}
    if place.scheme == "s3":
        return _s3a_options(names)
    if place.scheme == "gs":
        return _gs_options(names)
    account = place.account or _azure_account(storage)
    return _abfs_options(names, place.host or f"{account}.{_AZURE_HOST}") if account else {}


def _azure_account(storage: Storage) -> str:
    kind = place_of(storage.root).kind
    names = {kind.plain_name(name): value for name, value in connection_options(storage).items()}
    return names.get("account_name", "")


def _s3a_options(names: Mapping[str, str]) -> dict[str, str]:
    found = {_S3A[name]: value for name, value in names.items() if name in _S3A}
    if names.get("allow_http", "").lower() == "true":
        found["fs.s3a.connection.ssl.enabled"] = "false"
    if "endpoint" in names or "endpoint_url" in names:  # a store of one's own rarely has a host name for each bucket
        virtual = names.get("virtual_hosted_style_request", "false").lower() == "true"
        found["fs.s3a.path.style.access"] = str(not virtual).lower()
    return found


def _gs_options(names: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Google's connector, by their names in versions 2 and 3."""
    key_file = names.get("service_account") or names.get("service_account_path")
    if key_file is None:
        return {}
    return {
        "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
        "fs.gs.auth.service.account.enable": "true",
        "fs.gs.auth.service.account.json.keyfile": key_file,
    }


def _abfs_options(names: Mapping[str, str], host: str) -> dict[str, str]:
    key = names.get("account_key") or names.get("access_key")
    if key is not None:
        return {f"fs.azure.account.key.{host}": key}
    token = names.get("sas_key") or names.get("sas_token")
    if token is not None:
        return {
            f"fs.azure.account.auth.type.{host}": "SAS",
            f"fs.azure.sas.fixed.token.{host}": token.removeprefix("?"),
        }
    client, secret, tenant = (names.get(name) for name in ("client_id", "client_secret", "tenant_id"))
    if client is None or secret is None or tenant is None:
        return {}
    return {
        f"fs.azure.account.auth.type.{host}": "OAuth",
        f"fs.azure.account.oauth.provider.type.{host}": _AZURE_OAUTH,
        f"fs.azure.account.oauth2.client.id.{host}": client,
        f"fs.azure.account.oauth2.client.secret.{host}": secret,
        f"fs.azure.account.oauth2.client.endpoint.{host}": f"https://login.microsoftonline.com/{tenant}/oauth2/token",
    }
