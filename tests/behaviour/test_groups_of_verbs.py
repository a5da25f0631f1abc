"""Groups of a table's verbs work on the same table as the verbs themselves."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import pudi


def _written(path: Path) -> pudi.Table:
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    table = pudi.create(path / "t", schema=schema, record_key="id", ordering="ts", table_type="mor")
    for moment in (1, 2):
        table.upsert(pa.table({"id": ["a"], "ts": [moment]}, schema))
    return table


def test_services_and_what_shows_the_table_are_groups(tmp_path: Path) -> None:
    table = _written(tmp_path)
    assert table.maintenance.compact() is not None
    assert [each.action for each in table.inspect.history()] == [each.action for each in table.history()]
    assert table.inspect.check().ok


def test_a_group_sees_a_table_that_was_upgraded(tmp_path: Path) -> None:
    table = _written(tmp_path)
    table.upgrade(6, accept_loss=True)
    services = table.maintenance
    table.upgrade(9)
    assert services.clean() is None
    assert table.inspect.describe().version == 9
