"""A folder of loose files holds no file of a table's metadata; the error says of which kind the table is."""

from __future__ import annotations

import pytest

from pudi.errors import NotSupportedError
from pudi.filegroup.listing import check_is_loose


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (".hoodie/hoodie.properties", "the folder is a Hudi table: open it with pudi.Table"),
        ("old/_delta_log/00000000000000000000.json", "the folder old in it is a Delta table: its files alone"),
        ("old/metadata/v1.metadata.json", "the folder old in it is an Iceberg table: its files alone"),
    ],
)
def test_the_kind_of_a_table_is_named(path: str, told: str) -> None:
    with pytest.raises(NotSupportedError, match=told):
        check_is_loose("/data", path)


def test_other_files_are_loose() -> None:
    check_is_loose("/data", "day=1/part-0.parquet")
