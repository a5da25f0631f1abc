"""What Apache Hudi 1.2 wrote, taken out of the golden archives: file names, and content by name."""

from __future__ import annotations

import zipfile
from functools import cache
from pathlib import Path

GOLDEN = Path(__file__).parents[2] / "golden"
FORMAT = GOLDEN / "format"


@cache
def table_files() -> dict[str, bytes]:
    """Content by path, `TABLE/…`, of every version 9 copy-on-write golden table, metadata tables aside."""
    found = {}
    for archive in sorted(GOLDEN.glob("cow_v9_*.zip")):
        with zipfile.ZipFile(archive) as table:
            names = [n for n in table.namelist() if not n.endswith("/") and "/.hoodie/metadata/" not in n]
            found |= {name: table.read(name) for name in names}
    assert len(found) > 300, "the golden tables are missing"
    return found


@cache
def archive_files(name: str) -> dict[str, bytes]:
    """Content by name of an archive made for the codecs."""
    with zipfile.ZipFile(FORMAT / name) as archive:
        return {each: archive.read(each) for each in archive.namelist()}


@cache
def timeline_files() -> dict[str, bytes]:
    """Content by path of every timeline file: those of the tables, and of other kinds of instant."""
    of_tables = {path: data for path, data in table_files().items() if _in_timeline(path)}
    return of_tables | archive_files("instants.zip")


def _in_timeline(path: str) -> bool:
    return path.split("/")[1:-1] == [".hoodie", "timeline"]


@cache
def base_files() -> dict[str, bytes]:
    """Content by path of Parquet base files: those of the tables, and some with non-ASCII keys."""
    of_tables = {p: data for p, data in table_files().items() if p.endswith(".parquet") and "/.hoodie/" not in p}
    return of_tables | archive_files("base_files_unicode.zip")
