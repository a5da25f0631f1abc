"""Refuses merges that Apache Hudi refuses, before anything is read.

Hudi takes a record's key, partition and ordering value from the columns of the source that have these names, and stores
them as they are. A merge in which one is missing or has another type would place or order records otherwise than the
table does.

Source: MergeIntoHoodieTableCommand (validate, checkUpdatingActions, checkInsertingActions, checkDeletingActions).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pudi.config.table_options import EVENT_TIME_ORDERING
from pudi.schema.types import takes_as_is
from pudi.statement.assignment import spark_name
from pudi.statement.reader import wrong
from pudi.statement.session import named
from pudi.statement.tree import Merge, MergeAction, When
from pudi.table import Table

_VERSION_OF_MODES = 8
"""The first version whose tables say by which rule they merge; only there Hudi asks for ordering fields."""


def check_merge(text: str, statement: Merge, table: Table, source: pa.Schema) -> None:
    """Refuse a merge that Hudi refuses.

    Args:
        text: the statement's text, for errors.
        statement: the merge.
        table: the table merged into.
        source: the source's columns.

    Raises:
        InvalidArgumentError: a clause lacks or repeats a column, the source has a key, partition or ordering column of
            another type, or two clauses delete matched rows.
    """
    for message, clause in _faults(statement, table, source):
        raise wrong(text, clause.at, message)


def assigned(clause: MergeAction, table: Table, target: str) -> list[str]:
    """Return the table's columns that a clause sets, those that it sets twice twice; unknown ones are left out."""
    given = [name for name, _ in clause.values or ()]
    names = [named(table.schema.names, bare(name, target)) for name in given]
    return [name for name in names if name is not None]


def bare(name: str, alias: str) -> str:
    """Return the name of a column without the table's name in front."""
    first, dot, rest = name.partition(".")
    return rest if dot and first.lower() == alias.lower() else name


def _faults(statement: Merge, table: Table, source: pa.Schema) -> Iterator[tuple[str, MergeAction]]:
    target = statement.alias or statement.table.parts[-1]
    deletes = [clause for clause in statement.clauses if clause.when is When.MATCHED and clause.action == "delete"]
    if len(deletes) > 1:
        yield "a merge deletes matched rows by one clause: join the conditions by OR", deletes[1]
    needed = _needed(table)
    for clause in statement.clauses:
        if clause.action == "delete":
            continue
        if clause.values is None:
            yield from ((message, clause) for message in _lacking(clause, table, source))
            continue
        names = assigned(clause, table, target)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            yield f"column {twice} is set twice", clause
        missing = [name for name in needed if name not in names]
        if missing and clause.when is not When.NOT_MATCHED_BY_SOURCE:
            yield f"the clause sets no {missing[0]}, the table's ordering field: {_advice(clause, missing[0])}", clause
    sourced = [each for each in statement.clauses if each.when is not When.NOT_MATCHED_BY_SOURCE]
    setting = next((each for each in sourced if each.action != "delete"), None)
    if setting is not None:
        yield from ((message, setting) for message in _mistyped(table, source, needed))


def _needed(table: Table) -> tuple[str, ...]:
    """Return the ordering fields that clauses must set."""
    config = table.config
    ordered = config.merge_mode == EVENT_TIME_ORDERING and config.version >= _VERSION_OF_MODES
    return tuple(name.partition(".")[0] for name in config.ordering_fields) if ordered else ()


def _advice(clause: MergeAction, name: str) -> str:
    if clause.action == "update":
        return f"without it nothing says whether the change is newer; {name} = target.{name} keeps its value"
    return "without it nothing says which version of the record is newer"


def _lacking(clause: MergeAction, table: Table, source: pa.Schema) -> Iterator[str]:
    """Yield what's wrong with `*`, which stands for all of the table's columns."""
    missing = [name for name in table.schema.names if named(source.names, name) is None]
    if missing:
        star = "UPDATE SET *" if clause.action == "update" else "INSERT *"
        yield f"{star}: the source has no column {missing[0]}; name the columns"


def _mistyped(table: Table, source: pa.Schema, ordering: tuple[str, ...]) -> Iterator[str]:
    """Yield the columns of the source whose type isn't that of the key, partition or ordering column of their name."""
    config = table.config
    whats = {
        **dict.fromkeys(ordering, "ordering field"),
        **dict.fromkeys(config.partition_fields, "partition column"),
        **dict.fromkeys(config.record_key_fields, "record key column"),
    }
    for name, what in whats.items():
        own = named(source.names, name)
        if own is None or name not in table.schema.names:
            continue
        wanted, given = table.schema.field(name).type, source.field(own).type
        if not takes_as_is(wanted, given):
            kinds = spark_name(wanted), spark_name(given)
            yield f"the {what} {name} is {kinds[0]}, the source's column {own} is {kinds[1]}: CAST it in the source"
