"""The worked examples of Hudi's document on record mergers, as rows, and the one that Hudi itself does otherwise."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("price", pa.string())])
Values = tuple[str, int, "str | None", "str | None"]
MODELS = "org.apache.hudi.common.model."
STORED: Values = ("1", 2, "name_2", "price_2")
INCOMING: Values = ("1", 1, "name_1", "price_1")
TWICE: tuple[Values, Values] = (("2", 5, "five", "p"), ("2", 3, "three", "p"))
"""Two versions of a record in one batch, the later one first."""

EXAMPLES: dict[str, tuple[Values, Values, Values, Values]] = {
    "OverwriteWithLatestAvroPayload": (STORED, INCOMING, INCOMING, TWICE[1]),
    "DefaultHoodieRecordPayload": (STORED, INCOMING, STORED, TWICE[0]),
    "PartialUpdateAvroPayload": (
        ("1", 2, "name_1", None),
        ("1", 1, None, "price_1"),
        ("1", 2, "name_1", "price_1"),
        TWICE[0],
    ),
}
"""By payload class: the record in storage, the incoming one, what stands according to the document, and which of
`TWICE` stands in Hudi. The document says that of the first class the greatest ordering value stands within a batch; in
Hudi the last one does."""


def batch(*rows: Values) -> pa.Table:
    """Rows as a table."""
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, values, strict=True)) for values in rows], SCHEMA)


def found(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows without their meta fields, by record key."""
    return sorted(tuple(row[name] for name in SCHEMA.names) for row in rows)
