"""Define procedures: their names, parameters and columns as Hudi has them, and the verbs that they call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.statement.session import Session
from pudi.statement.table_functions import table_of
from pudi.table import Table

Columns = tuple[tuple[str, str], ...]
Rows = Iterable[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter.

    Attributes:
        name: Hudi's name.
        type: Spark's name of its type: `string`, `int`, `bigint` or `boolean`.
        default: the value if none is given.
        required: whether one must be given.
        also: another name that users know it by.
    """

    name: str
    type: str = "string"
    default: object = None
    required: bool = False
    also: str = ""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call.

    Attributes:
        session: the statement's.
        values: by parameter; defaults where none was given.
    """

    session: Session
    values: Mapping[str, object]

    def text(self, name: str) -> str:
        """A text; empty for none."""
        value = self.values[name]
        return "" if value is None else str(value)

    def number(self, name: str) -> int:
        """A number that isn't negative.

        Raises:
            InvalidArgumentError: it's NULL or negative.
        """
        value = self.values[name]
        if not isinstance(value, int) or value < 0:
            raise InvalidArgumentError(f"{name} is {'NULL' if value is None else value}: give a number from 0 on")
        return value

    def true(self, name: str) -> bool:
        """Whether a switch is on.

        Raises:
            InvalidArgumentError: it's NULL.
        """
        value = self.values[name]
        if value is None:
            raise InvalidArgumentError(f"{name} is NULL: give TRUE or FALSE")
        return bool(value)

    def refuse(self, procedure: str, name: str, default: object = None) -> None:
        """Refuse a parameter that has no effect, unless it says what pudi does.

        Raises:
            NotSupportedError: it has another value.
        """
        if self.values[name.lower()] != default:
            raise NotSupportedError(f"CALL {procedure} with {name}: leave it out")

    @property
    def table(self) -> Table:
        """The table that `table` or `path` names, with the options of the session."""
        named = self.values.get("table") or self.values.get("path")
        if not named:
            raise InvalidArgumentError("the procedure needs table => a name or path")
        return table_of(self.session, named)

    def options(self, **keys: str) -> dict[str, str]:
        """Options: those in `options` (`key=value,key=value`), and arguments that are given, by the keys of options.

        Args:
            keys: key of an option by parameter, with `__` for dots.
        """
        found: dict[str, str] = {}
        for pair in filter(
            None, (part.strip() for part in self.text("options").split(",")) if self.has("options") else ()
        ):
            key, equals, value = pair.partition("=")
            if not equals:
                raise InvalidArgumentError(f"options: {pair!r} is no key=value")
            found[key.strip()] = value.strip()
        return found | {key: str(self.values[name]) for name, key in keys.items() if self.values[name] is not None}

    def has(self, name: str) -> bool:
        """Whether a parameter is there and has a value."""
        return self.values.get(name) is not None

    @property
    def spark(self) -> Any:
        """The session of Spark; None on this machine."""
        return self.session.host.spark


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure.

    Attributes:
        name: Hudi's name.
        verb: what does it in pudi, for the documentation.
        parameters: in the order in which they are given by place.
        columns: of the result, with Spark's names of types.
        run: does it, and gives the rows.
    """

    name: str
    verb: str
    parameters: tuple[Parameter, ...]
    columns: Columns
    run: Callable[[Arguments], Rows] = field(repr=False)

    def help(self) -> str:
        """The parameters as text."""
        lines = [f"{self.name}: {self.verb}"]
        for each in self.parameters:
            given = "required" if each.required else f"default {each.default}"
            lines.append(f"  {each.name} {each.type}, {given}")
        return "\n".join(lines)


TABLE = Parameter("table")
THE_TABLE = Parameter("table", required=True)
PATH = Parameter("path")
FILTER = Parameter("filter", default="")


def limit(count: int) -> Parameter:
    """Return the number of rows to return."""
    return Parameter("limit", "int", count)
