"""A metadata table with damaged HFiles: reads say an error or do without it, and never give other rows."""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import pudi
from support.golden import Golden

ASKED = [None, "uuid = 'k0003'", "rider = 'ann'", "fare < 3.5", "city = 'nyc' AND ts > 15"]
TRIES = 8
"""Damages of each file."""


@pytest.fixture(scope="module")
def truth(golden_folder: Path) -> list[list[dict[str, object]]]:
    table = pudi.Table(Golden("mor_v9_rli").unpack(golden_folder), options={"hoodie.metadata.enable": "false"})
    return [_asked(table, where) for where in ASKED]


def _asked(table: pudi.Table, where: str | None) -> list[dict[str, object]]:
    rows = table.scan(where=where, meta_fields=False).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: str(row["uuid"]))


def _damages(content: bytes, chance: random.Random) -> Iterator[bytes]:
    """Bits flipped anywhere, and in the trailer, which has no checksum; ends cut off; zeros in the middle."""
    for number in range(TRIES):
        damaged = bytearray(content)
        where = chance.randrange(len(content))
        if number % 4 == 0:
            damaged[where] ^= 1 << chance.randrange(8)
        elif number % 4 == 1:
            damaged[max(0, len(content) - 4096) + chance.randrange(100)] ^= 1 << chance.randrange(8)
        elif number % 4 == 2:
            del damaged[where:]
        else:
            damaged[where : where + 40] = bytes(len(damaged[where : where + 40]))
        yield bytes(damaged)


@pytest.mark.parametrize("partition", ["files", "column_stats", "partition_stats", "record_index"])
def test_never_other_rows(
    golden_folder: Path, tmp_path: Path, truth: list[list[dict[str, object]]], partition: str
) -> None:
    path = tmp_path / "t"
    shutil.copytree(Golden("mor_v9_rli").unpack(golden_folder), path)
    chance = random.Random(partition)
    files = sorted((path / ".hoodie" / "metadata" / partition).glob("*.hfile"))
    assert files
    refused = 0
    for file in files[:3]:
        content = file.read_bytes()
        for damaged in _damages(content, chance):
            file.write_bytes(damaged)
            number = chance.randrange(len(ASKED))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    assert _asked(pudi.Table(path), ASKED[number]) == truth[number]
                except pudi.PudiError:
                    refused += 1
        file.write_bytes(content)
    assert refused < TRIES * len(files[:3])


def test_a_damaged_list_is_said_and_done_without(
    golden_folder: Path, tmp_path: Path, truth: list[list[dict[str, object]]]
) -> None:
    path = tmp_path / "t"
    shutil.copytree(Golden("mor_v9_rli").unpack(golden_folder), path)
    for file in (path / ".hoodie" / "metadata" / "files").glob("*.hfile"):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="folders are listed in its stead"):
        assert _asked(pudi.Table(path), None) == truth[0]
