"""Run CALL: find the procedure, bind its arguments, and give its rows."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.statement.host import result_table
from pudi.statement.procedures import lock_audit, services, table, timeline
from pudi.statement.procedures.procedure import Arguments, Parameter, Procedure
from pudi.statement.session import Session
from pudi.statement.tree import Argument, Call


def _help(arguments: Arguments) -> list[tuple[str]]:
    name = arguments.text("cmd")
    if not name:
        return [(f"{each.name}: {each.verb}",) for each in sorted(PROCEDURES.values(), key=lambda one: one.name)]
    if name not in PROCEDURES:
        raise InvalidArgumentError(f"there is no procedure {name}")
    return [(PROCEDURES[name].help(),)]


_HELP = Procedure("help", "this list", (Parameter("cmd"),), (("result", "string"),), _help)

PROCEDURES: Mapping[str, Procedure] = {
    each.name: each
    for each in (
        *timeline.PROCEDURES,
        *services.PROCEDURES,
        *table.PROCEDURES,
        *lock_audit.PROCEDURES,
        _HELP,
    )
}
"""The procedures by name."""

WITHOUT = frozenset(
    {
        "commits_compare",
        "copy_to_table",
        "copy_to_temp_view",
        "create_metadata_table",
        "delete_marker",
        "delete_metadata_table",
        "export_instants",
        "hdfs_parquet_import",
        "init_metadata_table",
        "partition_bucket_index_manager",
        "repair_add_partition_meta",
        "repair_corrupted_clean_files",
        "repair_deduplicate",
        "repair_migrate_partition_meta",
        "repair_overwrite_hoodie_props",
        "run_bootstrap",
        "run_rollback_inflight_tableservice",
        "show_bootstrap_mapping",
        "show_bootstrap_partitions",
        "show_clean_plans",
        "show_cleans_metadata",
        "show_file_status",
        "show_fs_path_detail",
        "show_invalid_parquet",
        "show_logfile_metadata",
        "show_logfile_records",
        "show_metadata_column_stats_overlap",
        "show_metadata_table_column_stats",
        "show_metadata_table_stats",
        "show_rollback_detail",
        "validate_metadata_table_files",
    }
)
"""Procedures of Hudi 1.2 that have no verb in pudi."""

_KINDS: Mapping[str, type] = {"string": str, "int": int, "bigint": int, "boolean": bool}


def call(session: Session, statement: Call) -> Any:
    """Run a procedure.

    Raises:
        NotSupportedError: Hudi has it, and pudi doesn't.
        InvalidArgumentError: there is none of that name, or an argument is wrong.
    """
    procedure = PROCEDURES.get(statement.procedure)
    if procedure is None:
        if statement.procedure in WITHOUT:
            with session.at(statement.at):
                raise NotSupportedError(
                    f"CALL {statement.procedure}: Hudi has this procedure, pudi doesn't; run it with Hudi. CALL help "
                    "lists those of pudi"
                )
        near = difflib.get_close_matches(statement.procedure, PROCEDURES, n=1, cutoff=0.0)
        raise session.wrong(
            statement.at,
            f"there is no procedure {statement.procedure}; the nearest is {near[0]}, CALL help lists all",
        )
    arguments = Arguments(session, _bound(session, procedure, statement))
    if str(arguments.values.get("filter") or ""):
        raise NotSupportedError(f"CALL {procedure.name} with filter: filter the rows that it gives")
    with session.at(statement.at):
        rows = list(procedure.run(arguments))
    return session.host.result(result_table(procedure.columns, rows))


def _bound(session: Session, procedure: Procedure, statement: Call) -> dict[str, object]:
    """The value of each parameter, by its name in lower case."""
    parameters = {each.name.lower(): each for each in procedure.parameters}
    values = {name: each.default for name, each in parameters.items()}
    also = {each.also: name for name, each in parameters.items() if each.also}
    given: set[str] = set()
    for position, argument in enumerate(statement.arguments):
        name = also.get(argument.name, argument.name) or (
            list(parameters)[position] if position < len(parameters) else ""
        )
        parameter = parameters.get(name)
        if parameter is None or name in given:
            known = ", ".join(each.name for each in procedure.parameters)
            what = f"{name} is given twice" if name in given else f"there is no parameter {name or position + 1}"
            raise session.wrong(argument.at, f"CALL {procedure.name}: {what}; there are {known}")
        given.add(name)
        values[name] = _value(session, procedure, parameter, argument)
    for name, parameter in parameters.items():
        if parameter.required and name not in given:
            raise session.wrong(statement.at, f"CALL {procedure.name} needs {parameter.name} => …")
    return values


def _value(session: Session, procedure: Procedure, parameter: Parameter, argument: Argument) -> object:
    value, kind = argument.value, _KINDS[parameter.type]
    if value is None or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
        return value
    if kind is str and isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # an instant without quotes
    if kind is int and isinstance(value, str) and value.lstrip("-").isdecimal():
        return int(value)
    if kind is bool and str(value).lower() in {"true", "false"}:
        return str(value).lower() == "true"
    raise session.wrong(argument.at, f"CALL {procedure.name}: {parameter.name} is {parameter.type}, not {value!r}")
