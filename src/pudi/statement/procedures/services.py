"""Procedures that run table services, and show their plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pudi.config import (
    ArchiveOptions,
    CleanOptions,
    ClusteringOptions,
    CompactionOptions,
    TtlOptions,
    check_compactable,
)
from pudi.errors import InvalidArgumentError, NotFoundError, NotSupportedError
from pudi.statement.procedures.procedure import (
    FILTER,
    PATH,
    TABLE,
    THE_TABLE,
    Arguments,
    Parameter,
    Procedure,
    Rows,
    limit,
)
from pudi.statement.table_functions import moment_text
from pudi.table import Table
from pudi.table.overview import ServicePlan

_OPTIONS = Parameter("options")


_SCHEDULE, _EXECUTE, _BOTH = "schedule", "execute", "scheduleandexecute"
_RUN = {"run": _EXECUTE, "": _BOTH}


def _operation(arguments: Arguments, wanted: Sequence[str]) -> str:
    """Return what a call does with plans: schedule one, execute the pending ones, or both (HoodieProcedureUtils)."""
    given = arguments.text("op").lower()
    found = _EXECUTE if wanted and not given else _RUN.get(given, given)
    if found not in {_SCHEDULE, _EXECUTE, _BOTH}:
        raise InvalidArgumentError(f"op {given!r}: it is schedule, execute (run) or scheduleAndExecute")
    if wanted and found == _BOTH:
        raise InvalidArgumentError("instants are those of plans to execute: op => 'execute'")
    return found


def _wanted(table: Table, service: str, *texts: str) -> list[str]:
    """Return the instants of pending plans that a call names.

    Raises:
        NotFoundError: there is none at one of them.
    """
    wanted = [each.strip() for text in texts for each in text.split(",") if each.strip()]
    missing = sorted(set(wanted) - set(_pending(table, service)))
    if missing:
        raise NotFoundError(f"there is no pending {service} {missing[0]}", table=table.path)
    return wanted


def _pending(table: Table, service: str) -> list[str]:
    return [each.instant for each in table.service_plans(service) if each.state != "COMPLETED"]


def _run(
    arguments: Arguments, service: str, operation: str, wanted: Sequence[str], options: Mapping[str, str]
) -> list[ServicePlan]:
    """Plan a service, run its plans, or both, as an operation says; return the plans that the call is about."""
    table = arguments.table
    if operation != _EXECUTE:
        table.schedule(service, options=options)
    chosen = wanted or _pending(table, service)
    if operation != _SCHEDULE and chosen:
        table.run_pending(service=service, instants=chosen, spark=arguments.spark, options=options)
    return [each for each in table.service_plans(service) if each.instant in chosen]


def _row(plan: ServicePlan) -> tuple[object, ...]:
    return plan.instant, plan.groups, plan.state


def _run_compaction(arguments: Arguments) -> Rows:
    arguments.refuse("run_compaction", "limit")
    table = arguments.table
    check_compactable(table.config, table.path)
    wanted = _wanted(table, "compaction", arguments.text("timestamp"), arguments.text("instants"))
    operation = _operation(arguments, wanted)
    options = _by_trigger(table, arguments.options())
    return map(_row, _run(arguments, "compaction", operation, wanted, options))


def _by_trigger(table: Table, options: dict[str, str]) -> dict[str, str]:
    """Return options that plan a compaction only where its trigger is reached, as all of Hudi's plans."""
    trigger = CompactionOptions.trigger
    return {trigger.key: table.options.get(trigger.key, trigger.default)} | options


def _show_compaction(arguments: Arguments) -> Rows:
    check_compactable(arguments.table.config, arguments.table.path)
    return map(_row, arguments.table.service_plans("compaction")[: arguments.number("limit")])


def _run_clustering(arguments: Arguments) -> Rows:
    arguments.refuse("run_clustering", "limit")
    table = arguments.table
    wanted = _wanted(table, "clustering", arguments.text("instants"))
    operation = _operation(arguments, wanted)
    single = ClusteringOptions.single_group
    options = {single.key: table.options.get(single.key, str(single.default).lower())} | arguments.options(
        order=ClusteringOptions.sort_columns.key,
        order_strategy=ClusteringOptions.layout.key,
        selected_partitions=ClusteringOptions.selected.key,
        partition_regex_pattern=ClusteringOptions.regex.key,
    )
    if arguments.has("predicate") and operation != _EXECUTE:
        selected = table.partitions(where=arguments.text("predicate"))
        if not selected:
            return []
        options |= ClusteringOptions.of_partitions(selected)
    plans = _run(arguments, "clustering", operation, wanted, options)
    return [] if operation == _SCHEDULE else _shown(plans, arguments)


def _shown(plans: Sequence[ServicePlan], arguments: Arguments) -> Rows:
    shown = arguments.true("show_involved_partition")
    return [(*_row(each), ",".join(each.partitions) if shown else "*") for each in plans]


def _run_clean(arguments: Arguments) -> Rows:
    arguments.refuse("run_clean", "schedule_in_line", True)
    table = arguments.table
    options = arguments.options(
        clean_policy=CleanOptions.policy.key,
        retain_commits=CleanOptions.commits_retained.key,
        hours_retained=CleanOptions.hours_retained.key,
        file_versions_retained=CleanOptions.versions_retained.key,
        trigger_max_commits=CleanOptions.trigger_commits.key,
    )
    if arguments.text("trigger_strategy").upper() not in {"", "NUM_COMMITS"}:
        raise NotSupportedError(f"trigger_strategy {arguments.text('trigger_strategy')}", table=table.path)
    result = table.clean(spark=arguments.spark, options=options)
    if result is None:
        return []
    kept = table.instant_content(result.instant)
    return [
        (
            result.instant, int(result.duration * 1000), result.files_deleted, kept.get("earliestCommitToRetain"),
            None, kept.get("version"),
        )
    ]  # fmt: skip


def _show_cleans(arguments: Arguments) -> Rows:
    arguments.refuse("show_cleans", "showArchived", False)
    table = arguments.table
    rows = []
    for each in [e for e in table.history() if e.action == "clean" and e.state == "completed"]:
        kept = table.instant_content(each.instant)
        done = moment_text(each.completed)
        rows.append(
            (
                each.instant, done, "clean", kept.get("startCleanTime"), kept.get("timeTakenInMillis"),
                kept.get("totalFilesDeleted"), kept.get("earliestCommitToRetain"),
                kept.get("lastCompletedCommitTimestamp"), kept.get("version"),
            )
        )  # fmt: skip
    return rows[: arguments.number("limit")]


def _archive(arguments: Arguments) -> Rows:
    arguments.refuse("archive_commits", "enable_metadata", True)
    options = {
        ArchiveOptions.keep_min_commits.key: str(arguments.values["min_commits"]),
        ArchiveOptions.keep_max_commits.key: str(arguments.values["max_commits"]),
        CleanOptions.commits_retained.key: str(arguments.values["retain_commits"]),
    }
    arguments.table.archive(options=options)
    return [(0,)]


def _run_ttl(arguments: Arguments) -> Rows:
    table = arguments.table
    before = set(table.partitions())
    options = arguments.options(
        ttl_policy=TtlOptions.strategy.key,
        retain_days=TtlOptions.days.key,
    )
    table.run_ttl(spark=arguments.spark, options=options)
    return [(partition,) for partition in sorted(before - set(table.partitions()))]


_COMPACTION = (("timestamp", "string"), ("operation_size", "int"), ("state", "string"))
_CLUSTERING = (
    ("timestamp", "string"), ("input_group_size", "int"), ("state", "string"), ("involved_partitions", "string"),
)  # fmt: skip
_PARTITIONS = Parameter("show_involved_partition", "boolean", False)

PROCEDURES = (
    Procedure(
        "run_compaction", "Table.compact",
        (
            Parameter("op", required=True), TABLE, PATH, Parameter("timestamp", "bigint"), _OPTIONS,
            Parameter("instants"), Parameter("limit", "int"),
        ),
        _COMPACTION, _run_compaction,
    ),
    Procedure(
        "show_compaction", "Table.service_plans", (TABLE, PATH, limit(20)), _COMPACTION, _show_compaction,
    ),
    Procedure(
        "run_clustering", "Table.cluster",
        (
            TABLE, PATH, Parameter("predicate"), Parameter("order"), _PARTITIONS, Parameter("op"),
            Parameter("order_strategy"), _OPTIONS, Parameter("instants"), Parameter("selected_partitions"),
            Parameter("partition_regex_pattern"), Parameter("limit", "int"),
        ),
        _CLUSTERING, _run_clustering,
    ),
    Procedure(
        "show_clustering", "Table.service_plans", (TABLE, PATH, limit(20), _PARTITIONS), _CLUSTERING,
        lambda a: _shown(a.table.service_plans("clustering")[: a.number("limit")], a),
    ),
    Procedure(
        "run_clean", "Table.clean",
        (
            THE_TABLE, Parameter("schedule_in_line", "boolean", True), Parameter("clean_policy"),
            Parameter("retain_commits", "int"), Parameter("hours_retained", "int"),
            Parameter("file_versions_retained", "int"), Parameter("trigger_strategy"),
            Parameter("trigger_max_commits", "int"), _OPTIONS,
        ),
        (
            ("start_clean_time", "string"), ("time_taken_in_millis", "bigint"), ("total_files_deleted", "int"),
            ("earliest_commit_to_retain", "string"), ("bootstrap_part_metadata", "string"), ("version", "int"),
        ),
        _run_clean,
    ),
    Procedure(
        "show_cleans", "Table.history",
        (THE_TABLE, limit(10), Parameter("showArchived", "boolean", False), FILTER),
        (
            ("clean_time", "string"), ("state_transition_time", "string"), ("action", "string"),
            ("start_clean_time", "string"), ("time_taken_in_millis", "bigint"), ("total_files_deleted", "int"),
            ("earliest_commit_to_retain", "string"), ("last_completed_commit_timestamp", "string"), ("version", "int"),
        ),
        _show_cleans,
    ),
    Procedure(
        "archive_commits", "Table.archive",
        (
            TABLE, PATH, Parameter("min_commits", "int", 20), Parameter("max_commits", "int", 30),
            Parameter("retain_commits", "int", 10), Parameter("enable_metadata", "boolean", True),
        ),
        (("result", "int"),), _archive,
    ),
    Procedure(
        "run_ttl", "Table.run_ttl", (THE_TABLE, Parameter("ttl_policy"), Parameter("retain_days", "int"), _OPTIONS),
        (("deleted_partitions", "string"),), _run_ttl,
    ),
)  # fmt: skip
"""The procedures of this module."""
