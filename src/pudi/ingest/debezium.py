"""Change events of Debezium become records: the row after the change, or before it for a delete, and its order.

Sources: PostgresDebeziumSource, MysqlDebeziumSource, DebeziumConstants of Apache Hudi 1.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import TableConfig
from pudi.errors import InvalidArgumentError, NotSupportedError, SchemaError
from pudi.schema.arrays import one_array, ordered_by

OPERATION: Final = "_change_operation_type"
_PAYLOADS: Final = "org.apache.hudi.common.model.debezium."
_DATABASES: Final = {
    "postgres": ("PostgresDebeziumAvroPayload", {"_event_lsn": "lsn", "_event_tx_id": "txId"}),
    "mysql": ("MySqlDebeziumAvroPayload", {"_event_bin_file": "file", "_event_pos": "pos"}),
}
"""Databases, each with the payload class that merges its events, and with columns and their fields of `source`."""
_ROW: Final = "\0number"


def debezium_events(database: str) -> Callable[[Any], pa.Table]:
    """Return a transform that flattens Debezium's change events.

    A record has the columns of `after` (of `before` for a delete), `_change_operation_type` (c, r, u or d),
    `_upstream_event_processed_ts_ms`, `_event_origin_ts_ms`, and where the event stands in the database's log:
    `_event_lsn` and `_event_tx_id`, or `_event_bin_file` and `_event_pos`. A table that `debezium_options` made merges
    them by this place, whatever order they come in, and deletes records whose operation is d.

    Args:
        database: `postgres` or `mysql`.

    Raises:
        InvalidArgumentError: another database.
    """
    _, places = _known(database)

    def flatten(data: Any) -> pa.Table:
        if not isinstance(data, pa.Table):
            raise NotSupportedError("events of Debezium are flattened on this machine: ingest without spark")
        return _flattened(data, places)

    return flatten


def debezium_options(database: str) -> dict[str, str]:
    """Return the options of a table that merges such events, as Hudi's."""
    payload, _ = _known(database)
    return {TableConfig.compaction_payload_class.key: f"{_PAYLOADS}{payload}"}


def _known(database: str) -> tuple[str, dict[str, str]]:
    if not isinstance(database, str) or database not in _DATABASES:
        raise InvalidArgumentError(f"debezium={database!r}: it is {' or '.join(_DATABASES)}")
    return _DATABASES[database]


def _flattened(data: pa.Table, places: dict[str, str]) -> pa.Table:
    if not data.num_rows:
        return data
    if "payload" in data.column_names and "op" not in data.column_names:
        data = _fields(data, "payload")
    missing = [name for name in ("op", "source") if name not in data.column_names]
    if missing:
        raise SchemaError(f"these are no events of Debezium: they have no {missing[0]!r}")
    data = data.append_column(_ROW, pa.array(range(data.num_rows)))
    deletes = pc.fill_null(pc.equal(data["op"], "d"), False)
    parts = [
        _side(data.filter(chosen), side, places)
        for side, chosen in (("after", pc.invert(deletes)), ("before", deletes))
        if pc.any(chosen).as_py()
    ]
    try:
        whole = pa.concat_tables(parts, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(f"rows before and after changes have types that don't go together: {error}") from error
    return ordered_by(whole, _ROW).drop_columns([_ROW])


def _side(events: pa.Table, side: str, places: dict[str, str]) -> pa.Table:
    if side not in events.column_names or not pa.types.is_struct(events.schema.field(side).type):
        raise SchemaError(f"events of Debezium with operation {events['op'][0].as_py()!r} have no row {side!r}")
    rows = _fields(events, side)
    source = _fields(events, "source")
    added = {OPERATION: events["op"], _ROW: events[_ROW]}
    for name, given in (("_upstream_event_processed_ts_ms", events), ("_event_origin_ts_ms", source)):
        if "ts_ms" in given.column_names:
            added[name] = given["ts_ms"]
    for name, field in places.items():
        if field in source.column_names:
            added[name] = source[field]
    for name, values in added.items():
        rows = rows.append_column(name, values)
    return rows


def _fields(data: pa.Table, name: str) -> pa.Table:
    column = one_array(data[name])
    if not pa.types.is_struct(column.type):
        raise SchemaError(f"these are no events of Debezium: {name!r} is {column.type}")
    names = [each.name for each in column.type]
    return pa.table([pc.struct_field(column, [number]) for number in range(len(names))], names=names)
