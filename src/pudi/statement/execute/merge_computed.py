"""Let the engine compute values of a MERGE's joined rows, in a query over both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pudi.errors import PudiError
from pudi.plan.row_changes import SOURCE, TARGET, MergeStage
from pudi.statement.session import Session
from pudi.statement.tree import Text

COMPUTED = "_pudi_computed_"
"""Begins the names of columns that the engine computes."""
CLAUSE = f"{COMPUTED}clause"
"""The column with the number of the clause that takes a row, where the engine decides it."""
SIDES: Mapping[MergeStage, tuple[str, ...]] = {
    MergeStage.PAIRS: (TARGET, SOURCE),
    MergeStage.MATCHED: (TARGET, SOURCE),
    MergeStage.NOT_MATCHED: (SOURCE,),
    MergeStage.NOT_MATCHED_BY_SOURCE: (TARGET,),
}
"""The sides whose columns an expression of a stage may name."""


@dataclass(slots=True)
class _Stage:
    """Values that are computed at a stage.

    Attributes:
        conditions: those of its clauses, in order, if the engine decides; None for a clause without one.
        values: by computed column an expression, the clause that it belongs to, and the table's column that takes it.
    """

    conditions: list[Text | None] | None = None
    values: dict[str, tuple[Text, int | None, pa.Field]] = field(default_factory=dict)


@dataclass(slots=True)
class MergeValues:
    """The expressions of a merge that its engine computes of joined rows.

    A value is computed only for the rows that its clause takes: for others it may be an error.

    Attributes:
        session: the statement's.
        names: what the statement calls the sides.
    """

    session: Session
    names: Mapping[str, str]
    _stages: dict[MergeStage, _Stage] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything is computed."""
        return bool(self._stages)

    def value(self, stage: MergeStage, text: Text, clause: int | None, column: pa.Field | None = None) -> str:
        """Have an expression computed.

        Args:
            stage: the rows.
            text: the expression.
            clause: the number of its clause among those of the stage; None for a condition of the match.
            column: the table's column that takes the value; None for a condition.

        Returns:
            The name of the column with its values.
        """
        found = self._stages.setdefault(stage, _Stage())
        name = f"{COMPUTED}{stage.name.lower()}_{len(found.values)}"
        found.values[name] = (text, clause, pa.field(CLAUSE, pa.bool_()) if column is None else column)
        return name

    def decide(self, stage: MergeStage, conditions: list[Text | None]) -> None:
        """Have the engine decide which clause of a stage takes a row."""
        self._stages.setdefault(stage, _Stage()).conditions = conditions

    def decides(self, stage: MergeStage) -> bool:
        """Return whether the engine decides which clause of a stage takes a row."""
        return stage in self._stages and self._stages[stage].conditions is not None

    def columns(self, stage: MergeStage) -> pa.Schema:
        """Return the columns of a stage; see `ComputedValues`."""
        found = self._stages.get(stage, _Stage())
        decided = [] if found.conditions is None else [pa.field(CLAUSE, pa.int32())]
        return pa.schema([*decided, *(pa.field(name, taking.type) for name, (_, _, taking) in found.values.items())])

    def add(self, rows: Any, stage: MergeStage) -> Any:
        """Return rows with computed columns; see `ComputedValues`."""
        found = self._stages[stage]
        decides = found.conditions is not None
        if found.conditions is not None:
            cases = [f"WHEN {_condition(each)} THEN {number}" for number, each in enumerate(found.conditions)]
            choice = f"CASE {' '.join(cases)} END"
            parts = {
                f"{COMPUTED}{number}": (text, _tested(text), pa.field(CLAUSE, pa.bool_()))
                for number, text in enumerate(found.conditions)
                if text is not None
            }
            rows = self._computed(rows, stage, {CLAUSE: (choice, pa.field(CLAUSE, pa.int32()))}, parts)
        values = {}
        for name, (text, clause, taking) in found.values.items():
            guarded = f"CASE WHEN {CLAUSE} = {clause} THEN {text} END" if decides else str(text)
            values[name] = (text, guarded if clause is not None else _tested(text), taking)
        made = {name: (sql, taking) for name, (_, sql, taking) in values.items()}
        return self._computed(rows, stage, made, values) if made else rows

    def _computed(
        self,
        rows: Any,
        stage: MergeStage,
        values: Mapping[str, tuple[str, pa.Field]],
        parts: Mapping[str, tuple[Text, str, pa.Field]],
    ) -> Any:
        """Rows with some columns; an error names the place of what is wrong, if a part of it is wrong by itself."""
        sides, host = {side: self.names[side] for side in SIDES[stage]}, self.session.host

        def query(text: str, tables: Mapping[str, Any]) -> Any:
            return self.session.query(Text(text, 0), tables)

        try:
            return host.computed(rows, sides, values, query)
        except PudiError:
            for name, (text, sql, taking) in parts.items():
                with self.session.at(text):
                    host.computed(rows, sides, {name: (sql, taking)}, query)
            raise


def _tested(text: Text) -> str:
    return f"CASE WHEN ({text}) THEN TRUE ELSE FALSE END"


def _condition(text: Text | None) -> str:
    return "TRUE" if text is None else f"({text.text})"
