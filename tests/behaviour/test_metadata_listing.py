"""Files listed through the metadata table: when it is asked, what it costs, and what happens where it can't be read."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.filegroup import StorageListing
from pudi.metadata import MetadataListing, MetadataWarning
from pudi.storage import CountingStorage
from support.golden import Golden

MERGED = "mor_v9_services"


@pytest.fixture(params=[MERGED, "mor_v6_services", "cow_v8_cdc_data_before_after"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Golden(request.param).unpack(tmp_path)


@pytest.fixture(autouse=True)
def no_other_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def client(path: Path, **options: str) -> MetaClient:
    return MetaClient.open(str(path), None, options)


def rows(path: Path, **options: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pudi.Table(str(path), options=options).scan().to_arrow().to_pylist()
    return sorted(found, key=str)


def test_no_folder_is_listed(path: Path) -> None:
    expected = rows(path, **{"hoodie.metadata.enable": "false"})
    for marker in path.rglob(".hoodie_partition_metadata"):
        if ".hoodie" not in marker.parent.parts[len(path.parts) :]:
            marker.unlink()  # by the folders there's no partition now
    assert rows(path) == expected
    with pytest.raises(pudi.CorruptError, match=r"its \.hoodie_partition_metadata is gone"):
        rows(path, **{"hoodie.metadata.enable": "false"})


def _requests(meta: MetaClient, storage: CountingStorage) -> int:
    timeline = meta.store.load()
    storage.reset()
    list(TableSnapshot(meta, timeline).listing().all_files())
    return sum(storage.calls.values())


def test_a_listing_keeps_to_its_request_budget(path: Path) -> None:
    opened = client(path)
    storage = CountingStorage(opened.storage)
    meta = MetaClient.of(storage, opened.properties, {}, opened.context)
    logs = len(list((path / ".hoodie" / "metadata" / "files").glob(".files-*")))
    # its timeline, a folder, a base file by one or two reads, log files; on local disks the commits that built this
    # and other partitions, which no log file here tells of
    assert _requests(meta, storage) <= 4 + logs + len(opened.config.metadata_partitions)
    assert _requests(meta, storage) == 1  # its timeline: nothing has changed


def test_a_partition_that_is_still_being_built_is_not_asked(path: Path) -> None:
    properties = path / ".hoodie" / "hoodie.properties"
    kept = [line for line in properties.read_text().splitlines() if not line.startswith("hoodie.table.metadata.")]
    properties.write_text("\n".join([*kept, "hoodie.table.metadata.partitions.inflight=files", ""]))
    listing = TableSnapshot.load(client(path)).listing()
    assert isinstance(listing, StorageListing)


@pytest.mark.parametrize("damage", ["gone", "no commit", "base file", "log file", "behind"])
def test_folders_are_listed_where_the_metadata_table_cannot_be_read(path: Path, damage: str) -> None:
    expected = rows(path, **{"hoodie.metadata.enable": "false"})
    metadata = path / ".hoodie" / "metadata"
    timeline = metadata / ".hoodie" / "timeline"
    timeline = timeline if timeline.exists() else metadata / ".hoodie"
    if damage == "gone":
        shutil.rmtree(metadata)
    elif damage == "no commit":
        shutil.rmtree(timeline)
    elif damage == "behind":
        newest = sorted(p.name for p in timeline.iterdir() if "deltacommit" in p.name)[-1].split(".")[0].split("_")[0]
        for file in timeline.glob(f"{newest}*"):
            file.unlink()
    else:
        pattern = "files-*.hfile" if damage == "base file" else ".files-*.log.*"
        for file in (metadata / "files").glob(pattern):
            content = bytearray(file.read_bytes())
            content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
            file.write_bytes(bytes(content))
    with pytest.warns(MetadataWarning, match="folders are listed"):
        assert rows(path) == expected


def test_a_damaged_listing_warns_once(path: Path) -> None:
    shutil.rmtree(path / ".hoodie" / "metadata" / "files")
    meta = client(path)
    listing = TableSnapshot.load(meta).listing()
    assert isinstance(listing, MetadataListing)
    with pytest.warns(MetadataWarning):
        found = listing.all_files()
    assert list(listing.partitions()) == sorted(found)
    assert set(listing.files_of(found)) == set(found)
