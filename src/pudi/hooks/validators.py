"""Pre-commit validators: SQL queries and functions that compare the table before and after a write, and may refuse it.

They run when the files are written and before the instant completes, without the table's lock. What they see is what
the commit publishes: if another commit changes the same partitions meanwhile, they run again.

Source: SparkValidatorUtils, SqlQueryPreCommitValidator and its subclasses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from pudi.client import TableSnapshot, merging_of, read_history
from pudi.client.meta_client import MetaClient, OpenedMetadata
from pudi.config import Option, ValidatorOptions
from pudi.config.option import checked_name
from pudi.errors import ConflictError, InvalidArgumentError, NotSupportedError, ValidationError, cause_text
from pudi.format import Action, CommitMetadata, State
from pudi.plan import ReadableTable, Selection, plan_read
from pudi.schema.java_numbers import java_float_text
from pudi.task import Engine
from pudi.task.engine import TableRows
from pudi.timeline import Instant, Timeline, new_instant

Validator: TypeAlias = Callable[[Any, Any], object]
"""A user's function of the rows before and after a write; it raises an error to refuse the write."""

_PACKAGE = "org.apache.hudi.client.validator."
_UNCHECKED = frozenset({"COMPACT", "INDEX", "LOG_COMPACT"})
"""Operations that Hudi doesn't validate; clusterings it does."""
_SHOWN = 10
"""Rows of a result in a message."""

_REGISTERED: dict[str, Validator] = {}


class ValidatedStateChangedError(ConflictError):
    """Another commit changed what validators saw, between the validation and the commit."""


def register_validator(name: str, validator: Validator) -> None:
    """Make a function known to this process as a pre-commit validator.

    Writes whose `hoodie.precommit.validators` has the name call it in the writing thread when their files are written:
    `validator(before, after)`. Both hold the partitions that the write touches, with meta fields and merged log files:
    objects with an Arrow stream on this machine, DataFrames on Spark. If it raises an error, the write fails with
    `ValidationError`, and the table is as it was. What it returns is ignored.

    Args:
        name: the name in the option, without commas. A function registered before under the same name is replaced.
        validator: takes the rows before and after the write.

    Raises:
        InvalidArgumentError: the name is empty, has a comma or is one of Hudi's, or `validator` can't be called.
    """
    _REGISTERED[checked_name("validator", name, validator)] = validator


def check_validators(meta: MetaClient, engine: Engine) -> None:
    """Refuse validators that can't run, before anything is written.

    Raises:
        NotSupportedError: a name that is neither registered nor one of Hudi's SQL validators.
        InvalidArgumentError: a SQL validator without queries, or a query without an expected value.
        SetupError: the engine lacks a package for SQL.
    """
    options = ValidatorOptions.of(meta.options)
    for name in options.names:
        if name in _SQL:
            list(_queries(options, name))
            engine.check_sql()
        elif name not in _REGISTERED:
            raise NotSupportedError(
                f"{ValidatorOptions.classes}={name}: no validator of that name is registered in this process, and pudi "
                "never loads a class by name; call pudi.register_validator first, or use one of "
                f"{', '.join(sorted({*_SQL, *_REGISTERED}))}",
                table=meta.storage.root,
            )


@dataclass(frozen=True, slots=True)
class Validation:
    """A validation that has passed.

    Attributes:
        meta: the table.
        seen: the timeline that it looked at.
        partitions: the partitions that it looked at.
    """

    meta: MetaClient
    seen: Timeline
    partitions: frozenset[str]

    def check(self, now: Timeline) -> None:
        """Verify, under the table's lock, that no commit changed the partitions since.

        Raises:
            ValidatedStateChangedError: one did.
        """
        known = {instant.requested for instant in self.seen.commits}
        for instant in now.commits:
            if instant.requested in known:
                continue
            written = self.meta.store.read_commit_metadata(instant)
            if written.operation_type not in {*_UNCHECKED, "CLUSTER"} and self.partitions & written.partitions:
                raise ValidatedStateChangedError(
                    "another commit changed partitions of this write while it was validated; nothing of it is visible: "
                    "write again",
                    table=self.meta.storage.root,
                    instant=instant.requested,
                )


def validate(
    meta: MetaClient, instant: Instant, action: Action, written: CommitMetadata, engine: Engine
) -> Validation | None:
    """Run the validators on an inflight instant whose files are written.

    Args:
        meta: the table.
        instant: the instant.
        action: the action that it will complete as.
        written: its commit metadata.
        engine: reads the rows.

    Returns:
        What was validated; None if nothing was to be.

    Raises:
        ValidationError: a validator refused.
    """
    options = ValidatorOptions.of(meta.options)
    if not options.names or meta.is_metadata or written.operation_type in _UNCHECKED:
        return None
    seen, partitions = TableSnapshot.load(meta), frozenset(written.partitions)
    states = _states(seen, partitions, replace(instant, action=action), written, engine)
    for name in options.names:
        if name in _SQL:
            for query in _queries(options, name):
                _SQL[name].check(query, *states, _Refusal(meta, instant, name))
        else:
            try:
                _REGISTERED[name](states[0].data, states[1].data)
            except Exception as error:
                raise _Refusal(meta, instant, name).of(cause_text(error)) from error
    return Validation(meta, seen.timeline, partitions)


def _states(
    seen: TableSnapshot,
    partitions: frozenset[str],
    instant: Instant,
    written: CommitMetadata,
    engine: Engine,
) -> tuple[TableRows, TableRows]:
    """Return the rows of the partitions before and after a write, both with the columns that it leaves."""
    meta, timeline, completion = seen.meta, seen.timeline, None
    if timeline.rules.has_completion_times:
        completion = new_instant(meta.context.clock.now_ms(), timeline.newest_time, meta.config.timezone)
    done = replace(instant, state=State.COMPLETED, completion=completion)
    store = replace(meta.store, assumed={done.file_name(): written})
    # the metadata table doesn't list the files yet
    then = replace(meta, store=store, opened=OpenedMetadata(), reads_metadata=False)
    after = TableSnapshot(then, timeline.with_completed(done))
    table = ReadableTable(seen.table, after.schema.columns, meta.config.populate_meta_fields, read_history(after))
    plan = plan_read(table, Selection())

    def rows(snapshot: TableSnapshot) -> TableRows:
        slices = tuple(snapshot.view().slices_of(sorted(partitions)))
        merging = merging_of(snapshot) if slices else None
        return engine.rows(meta.storage, replace(plan, slices=slices, merging=merging))

    return rows(seen), rows(after)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Makes the errors of one validator."""

    meta: MetaClient
    instant: Instant
    name: str

    def of(self, why: str) -> ValidationError:
        return ValidationError(
            f"validator {self.name.removeprefix(_PACKAGE)} refused the write, and nothing of it is visible: {why}",
            table=self.meta.storage.root,
            instant=self.instant.requested,
        )


@dataclass(frozen=True, slots=True)
class _Sql:
    """One of Hudi's SQL validators.

    Attributes:
        queries: the option that holds its queries.
        differ: whether results must differ; None where the result after the write must be a stated value.
    """

    queries: Option[str]
    differ: bool | None = None

    def check(self, query: str, before: TableRows, after: TableRows, refusal: _Refusal) -> None:
        """Run one query.

        Raises:
            ValidationError: its result isn't as it must be.
        """
        sql, _, expected = (query, "", "") if self.differ is not None else query.rpartition("#")
        try:
            new = after.query(sql)
            old = before.query(sql) if self.differ is not None else []
        except Exception as error:
            raise refusal.of(f"the query {sql!r} can't be run: {cause_text(error)}") from error
        if self.differ is None:
            found = _single(new)
            if found != expected.strip():
                raise refusal.of(f"{sql!r} must give {expected.strip()}, and gives {found or _shown(new)}")
        elif (Counter(map(repr, old)) == Counter(map(repr, new))) is self.differ:
            must = "differ" if self.differ else "be equal"
            raise refusal.of(
                f"the results of {sql!r} must {must}: before the write {_shown(old)}, after it {_shown(new)}"
            )


_SQL = {
    f"{_PACKAGE}SqlQueryEqualityPreCommitValidator": _Sql(ValidatorOptions.equality_queries, differ=False),
    f"{_PACKAGE}SqlQueryInequalityPreCommitValidator": _Sql(ValidatorOptions.inequality_queries, differ=True),
    f"{_PACKAGE}SqlQuerySingleResultPreCommitValidator": _Sql(ValidatorOptions.single_value_queries),
}


def _queries(options: ValidatorOptions, name: str) -> Iterator[str]:
    """Return the queries of a SQL validator.

    Raises:
        InvalidArgumentError: there are none, or a query lacks the value that it must give.
    """
    kind = _SQL[name]
    queries = [query.strip() for query in str(kind.queries.value_in(options.given)).split(";") if query.strip()]
    if not queries:
        raise InvalidArgumentError(f"{ValidatorOptions.classes}={name} needs {kind.queries}")
    for query in queries:
        if kind.differ is None and query.count("#") != 1:
            raise InvalidArgumentError(f"{kind.queries}: {query!r} lacks the value that it must give: query#value")
        yield query


def _single(rows: list[tuple[Any, ...]]) -> str | None:
    """Return the one value of a result as text; None if there isn't one."""
    return _text(rows[0][0]) if len(rows) == 1 and len(rows[0]) == 1 else None


def _text(value: object) -> str:
    """Return a value as Java prints it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(java_float_text(pa.array([value], pa.float64()))[0].as_py())
    return "null" if value is None else str(value)


def _shown(rows: list[tuple[Any, ...]]) -> str:
    said = [f"({', '.join(map(_text, row))})" for row in rows[:_SHOWN]]
    more = f" and {len(rows) - _SHOWN} more rows" if len(rows) > _SHOWN else ""
    return f"{', '.join(said) or 'no rows'}{more}"
