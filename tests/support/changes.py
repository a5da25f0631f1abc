"""A model of change data: what a commit changed, from the rows before and after it in plain dicts."""

from __future__ import annotations

import json
from typing import Any

import pudi
from support.rows import Row, from_arrow
from support.trips import SCHEMA

State = dict[tuple[str, str], Row]
"""Rows by city and uuid, with the commit time of each."""

LOGGED = {"hoodie.table.cdc.enabled": "true"}
MODE = "hoodie.table.cdc.supplemental.logging.mode"
REPLACING = frozenset({"insert_overwrite", "insert_overwrite_table", "delete_partitions"})


def state_of(table: pudi.Table) -> State:
    """The table as it is."""
    return {(row["city"], row["uuid"]): row for row in from_arrow(table.scan().to_arrow())}


def changes_between(before: State, after: State, instant: str, verb: str) -> list[Row]:
    """The changes of one commit: what has its time is new; a replacing commit deletes and inserts, and updates none."""
    changes = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old is not None and new is not None and _version(old) == _version(new):
            continue
        if old is not None and new is not None and verb in REPLACING:
            changes += [_change("d", instant, old, None), _change("i", instant, None, new)]
        else:
            changes.append(_change("i" if old is None else "d" if new is None else "u", instant, old, new))
    return changes


def typed(feed: Any) -> list[Row]:
    """Rows of change data with images as texts, as those with images as structs are."""
    return [
        {**row, "before": _image(row["before"]), "after": _image(row["after"])} for row in from_arrow(feed.to_arrow())
    ]


def _image(text: str | None) -> Row | None:
    found: Row | None = json.loads(text or "null")
    return found and {name: found.get(name) for name in SCHEMA.names}  # texts leave out what is null


def _change(op: str, instant: str, old: Row | None, new: Row | None) -> Row:
    return {"op": op, "ts_ms": instant, "before": old and _data(old), "after": new and _data(new)}


def _version(row: Row) -> tuple[str, str]:
    return row["_hoodie_commit_time"], row["_hoodie_commit_seqno"]


def _data(row: Row) -> Row:
    return {name: value for name, value in row.items() if not name.startswith("_hoodie")}
