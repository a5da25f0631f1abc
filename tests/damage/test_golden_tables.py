"""Damaged files of tables that Hudi wrote: kinds of files and instants that pudi reads and doesn't write.

ORC files, cleans, savepoints, restores and clusterings among them. What the whole table holds is what Hudi read back
from it, as tests/golden hold; here its scan is compared with that of the damaged table.
"""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

import pytest

import pudi
from support.golden import Golden
from support.matrix.damages import damages, kinds
from support.matrix.judge import Case, WrongRows, names_file
from support.matrix.limits import limit_of

pytestmark = pytest.mark.filterwarnings("ignore")  # a damaged metadata table is told by a warning

TABLES = [
    "cow_v9_orc",
    "cow_v9_clustered",
    "cow_v6_clustered",
    "cow_v6_archived",
    "cow_v9_archived",
    "mor_v6_services",
    "mor_v6_savepoint_restore",
    "mor_v9_savepoint_restore_rollback",
    "mor_v9_logcompact",
    "v3_mor_basic",
    "v5_mor_basic",
    "v5_cow_archived",
]
EVERY = 12


def found_in(path: Path) -> list[str]:
    return sorted(str(row) for row in pudi.Table(str(path)).scan().to_arrow().to_pylist())


def outcome(whole: Path, copy: Path, file: Path, data: bytes | None, expected: list[str]) -> BaseException | None:
    """What is wrong with a scan of a copy whose file holds `data`; None where nothing is."""
    shutil.copytree(whole, copy, copy_function=os.link)
    try:
        hit = copy / file.relative_to(whole)
        hit.unlink()
        if data is not None:
            hit.write_bytes(data)
        if found_in(copy) != expected:
            return WrongRows("other rows")
    except pudi.PudiError as error:
        return None if names_file(error, file) else error
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told of
        return error
    finally:
        shutil.rmtree(copy)
    return None


@pytest.mark.parametrize("every", [EVERY, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TABLES)
def test_damaged_files(tmp_path: Path, name: str, every: int) -> None:
    whole = Golden(name).unpack(tmp_path)
    expected, wrong, count = found_in(whole), [], 0
    for kind, (file, older) in sorted(kinds(whole).items()):
        for damage, run in damages(file, older).items():
            case = Case(name, kind, damage, "scan")
            if zlib.crc32(str(case).encode()) % every:
                continue
            count += 1
            found = outcome(whole, tmp_path / "copy", file, run(file.read_bytes()), expected)
            if found is not None and limit_of(case, found) is None:
                wrong.append(f"{case} [{file.name}] -> {type(found).__name__}: {found}")
    assert count >= 6
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize("name", ["mor_v6_savepoint_restore", "mor_v9_savepoint_restore_rollback"])
def test_a_savepoint_that_isnt_completed_hides_no_commit(tmp_path: Path, name: str) -> None:
    path = Golden(name).unpack(tmp_path)
    expected = found_in(path)
    done = [file for file in (path / ".hoodie").rglob("*.savepoint") if "metadata" not in file.parts]
    assert done
    for file in done:
        file.unlink()
    assert list((path / ".hoodie").rglob("*.savepoint.inflight")), "it has begun and bears its commit's time"
    assert found_in(path) == expected
    assert pudi.Table(str(path)).upsert(pudi.Table(str(path)).scan().to_arrow()) is not None
    assert len(found_in(path)) == len(expected)
