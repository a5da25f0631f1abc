"""Which storage a location means."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from pudi.context import Storage
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.storage import StorageKind, canonical_root, open_storage, storage_kind


@pytest.mark.parametrize(
    "url", ["hdfs://nn:8020/t", "adl://store.azuredatalakestore.net/t", "oss://bucket/t", "http://x/y"]
)
def test_unknown_schemes_are_refused_by_name(url: str) -> None:
    with pytest.raises(NotSupportedError, match=url.partition(":")[0]):
        open_storage(url)


@pytest.mark.parametrize(
    "location",
    [
        "", "s3://", "s3:///t", "memory://", "file://host/t", "s3://b/a//c", "s3://b/../c",
        "gs://", "az:///t", "abfss://c@/t", "abfss://@a.x/t",
    ],
)  # fmt: skip
def test_wrong_locations_are_refused(location: str) -> None:
    with pytest.raises(InvalidArgumentError):
        open_storage(location)


def test_wrong_options_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentError, match="secret_acess_key"):
        open_storage("s3://bucket/t", {"secret_acess_key": "x"})


def test_secrets_stay_out_of_the_text() -> None:
    storage = open_storage("s3://bucket/t", {"access_key_id": "me", "secret_access_key": "hush", "region": "x"})
    assert "hush" not in repr(storage)


@pytest.mark.parametrize(
    ("root", "kind"),
    [
        ("/data/t", StorageKind.LOCAL),
        ("data/t", StorageKind.LOCAL),
        ("file:///data/t", StorageKind.LOCAL),
        ("memory://x", StorageKind.MEMORY),
        ("s3a://bucket/t", StorageKind.OBJECTS),
        ("s3://bucket", StorageKind.OBJECTS),
        ("gs://bucket/t", StorageKind.OBJECTS),
        ("az://container/t", StorageKind.OBJECTS),
        ("abfss://c@a.dfs.core.windows.net/t", StorageKind.OBJECTS),
    ],
)
def test_kinds(root: str, kind: StorageKind) -> None:
    assert storage_kind(root) is kind


def test_one_root_has_one_spelling(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "alias").symlink_to("t")
    local = {
        canonical_root(f"{at}{tmp_path}/{name}")
        for at in ("", "file://", "file:", "FILE://", "File:")
        for name in ("t", "alias/", "t/")
    }
    assert local == {str((tmp_path / "t").resolve())}
    assert {canonical_root(root) for root in ("s3://b/t", "s3a://b/t/", "s3n://b/t")} == {"s3://b/t"}
    azure = (
        "abfss://c@A.dfs.core.windows.net/t",
        "abfs://c@a.dfs.core.windows.net/t/",
        "wasbs://c@a.blob.core.windows.net/t",
    )
    assert {canonical_root(root) for root in azure} == {"abfss://c@a.dfs.core.windows.net/t"}
    assert {canonical_root(root) for root in ("az://c/t", "abfss://c/t", "azure://c/t/")} == {"az://c/t"}
    assert canonical_root("gs://b/t/") == "gs://b/t"


def test_an_account_named_twice_must_be_one() -> None:
    with pytest.raises(InvalidArgumentError, match="storage account acme, the option account_name other"):
        open_storage("abfss://c@acme.dfs.core.windows.net/t", {"azure_storage_account_name": "other"})
    open_storage("abfss://c@acme.dfs.core.windows.net/t", {"account_name": "acme"})


@pytest.mark.parametrize("url", ["az://c/t", "gs://b/t"])
def test_wrong_options_of_each_store_are_refused_by_name(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="acount_key"):
        open_storage(url, {"acount_key": "x", "account_name": "a"})


def test_memory_is_shared_by_name_within_the_process() -> None:
    open_storage("memory://shared/a/b").create("file", b"1")
    assert open_storage("memory://shared").read("a/b/file") == b"1"
    assert open_storage("memory://shared/a").list_dir("") == ([], ["b"])
    assert list(open_storage("memory://other").list()) == []


def test_memory_never_seems_empty_in_another_process() -> None:
    storage = open_storage("memory://mine")
    storage.create("file", b"1")
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        told = pool.submit(_unpickle, pickle.dumps(storage)).result()
    assert "another process" in told


def _unpickle(data: bytes) -> str:
    try:
        found: Storage = pickle.loads(data)
    except NotSupportedError as error:
        return str(error)
    return f"opened with {len(list(found.list()))} files"


@pytest.mark.parametrize("name", ["tab\tname", "line\nname", "del\x7f"])
def test_names_that_object_stores_cant_hold_are_refused(name: str) -> None:
    storage = open_storage("memory://names")
    with pytest.raises(NotSupportedError) as raised:
        storage.create(f"p/{name}", b"")
    assert raised.value.path == f"p/{name}"
