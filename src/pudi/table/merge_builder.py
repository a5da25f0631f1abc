"""`table.merge(…)`: a merge put together clause by clause, and executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pudi.client import CommitResult
from pudi.config.arguments import map_given
from pudi.plan.row_changes import ComputedValues, MergeKind
from pudi.writes.merge_binding import Clause, MergeRequest


@dataclass(frozen=True, slots=True)
class MergeBuilder:
    """A merge that is being put together; each call gives a new one. See `Table.merge`.

    The first matched clause with a true condition applies to a row; likewise for not-matched clauses, and those for
    rows of the table that no row of the source matches. Conditions and
    values refer to columns as `source.fare` and `target.fare`; the prefix may be omitted for a column of one side only.
    """

    _request: MergeRequest
    _run: Callable[[MergeRequest], CommitResult | None]

    def when_matched_update(
        self, updates: Mapping[str, object] | None = None, condition: str | None = None
    ) -> MergeBuilder:
        """Update rows of the table that match: `when_matched_update({"fare": "source.fare * 2", "tip": 0})`.

        Args:
            updates: by column, SQL text of its new value or a constant that is no text (a text is `"'nyc'"`); None sets
                every column that the source has. Record key and partition columns keep their values.
            condition: SQL predicate; None for all that match.
        """
        return self._with(MergeKind.UPDATE, updates, condition)

    def when_matched_update_all(self, condition: str | None = None) -> MergeBuilder:
        """Set every column that the source has in rows that match."""
        return self._with(MergeKind.UPDATE, None, condition)

    def when_matched_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete rows of the table that match, where `condition` is true."""
        return self._with(MergeKind.DELETE, None, condition)

    def when_not_matched_insert(
        self, updates: Mapping[str, object] | None = None, condition: str | None = None
    ) -> MergeBuilder:
        """Insert source rows that match no row of the table.

        Args:
            updates: by column, SQL text over the source's columns or a constant that is no text; columns left out are
                null. None takes every column from the source.
            condition: SQL predicate over the source's columns; None for all of them.
        """
        return self._with(MergeKind.INSERT, updates, condition)

    def when_not_matched_insert_all(self, condition: str | None = None) -> MergeBuilder:
        """Insert source rows that match no row of the table, every column from the source."""
        return self._with(MergeKind.INSERT, None, condition)

    def when_not_matched_by_source_update(
        self, updates: Mapping[str, object], condition: str | None = None
    ) -> MergeBuilder:
        """Update rows of the table that match no row of the source; all of the table is read.

        Args:
            updates: by column, SQL text over the table's columns or a constant that is no text.
            condition: SQL predicate over the table's columns; None for all of them.
        """
        return self._with(MergeKind.UPDATE, updates, condition, sourced=False)

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete rows of the table that match no row of the source, where `condition` is true; all of it is read."""
        return self._with(MergeKind.DELETE, None, condition, sourced=False)

    def execute(self) -> CommitResult | None:
        """Merge, in one commit.

        Returns:
            What was done; None when no clause takes a row.

        Raises:
            InvalidArgumentError: a wrong column, condition or value; several source rows match one row of the table;
                an update would change a row's record key or partition.
            SchemaError: source and table don't fit.
            NotSupportedError: SQL beyond the subset; a table that this release can't write.
            ConflictError: other writers won, this one's further attempts too; nothing of this merge is visible.
            ChangedSinceError: the table has changed since `if_unchanged_since`; nothing was written.
        """
        return self._run(self._request)

    def _with(
        self, kind: MergeKind, values: Mapping[str, object] | None, condition: str | None, *, sourced: bool = True
    ) -> MergeBuilder:
        clause = Clause(kind, None if values is None else map_given(values, "values"), condition, sourced)
        return replace(self, _request=replace(self._request, clauses=(*self._request.clauses, clause)))


def execute_clauses(
    builder: MergeBuilder, clauses: Sequence[Clause], computed: ComputedValues | None
) -> CommitResult | None:
    """Execute a merge with clauses that may name computed columns; see `MergeBuilder.execute`.

    Args:
        builder: the merge without clauses.
        clauses: in order.
        computed: the values of these columns; None for none.
    """
    return builder._run(replace(builder._request, clauses=tuple(clauses), computed=computed))
