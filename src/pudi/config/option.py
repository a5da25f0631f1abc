"""What one setting is: its key, type, default, scope and what this release does with it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pudi.errors import InvalidArgumentError, NotSupportedError

Value: TypeAlias = str | int | bool | float
"""What an option's text becomes."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


class Scope(Enum):
    """Where a setting lives."""

    TABLE = "table"
    """In the table's properties: given when the table is made, and not to be contradicted later."""
    WRITE = "write"
    """With a writer: given to a `Table` or to one verb."""
    READ = "read"
    """With a reader."""


class Status(Enum):
    """What this release does with a setting."""

    SUPPORTED = "supported"
    """It has the effect that Hudi gives it."""
    HARMLESS = "harmless"
    """It is known and has nothing to act on here: accepted, and said once in the log."""
    IGNORED = "ignored"
    """It asks for something that this release lacks and a job can do without: accepted, with a warning, said once."""
    UNSUPPORTED = "not supported"
    """It asks for something that this release lacks: any value but the default raises `NotSupportedError`."""


@dataclass(frozen=True, slots=True)
class Option:
    """One setting, declared once.

    Attributes:
        key: Hudi's key. One that ends in `.*` stands for every key with that beginning.
        scope: where the setting lives.
        doc: one sentence for the option page.
        kind: type of the value: `str`, `int`, `bool` or `float`.
        default: value without the setting; None where there is none.
        status: what this release does with it.
        choices: the values that this release takes, in their canonical spelling; empty for any.
        unsupported: further values that Hudi knows and this release refuses by name.
        aliases: other keys for the same setting that may stand in a table's properties too.
        job_keys: keys by which a Hudi job's options name it.
        minimum: least value of a number.
        instead: what a user does instead, where the setting is refused.
    """

    key: str
    scope: Scope
    doc: str
    kind: type[Value] = str
    default: Value | None = None
    status: Status = Status.SUPPORTED
    choices: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    job_keys: tuple[str, ...] = ()
    minimum: float | None = None
    instead: str = ""

    @property
    def is_family(self) -> bool:
        """Whether the option stands for every key with its beginning."""
        return self.key.endswith(".*")

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that names this option, the canonical one first."""
        return (self.key, *self.aliases, *self.job_keys)

    def parse(self, text: str, *, key: str | None = None) -> Value:
        """The value of `text`, as strictly as the type allows: what does not parse is an error, never a default.

        Values with choices are matched without regard to case, as Hudi's enums are, and come back in their canonical
        spelling.

        Args:
            text: the value as given.
            key: the key as given, for the message; the canonical one otherwise.

        Raises:
            InvalidArgumentError: the text is no value of this option.
        """
        value = self._convert(text)
        if value is None:
            expected = self._expected()
            raise InvalidArgumentError(f"option {key or self.key}={text!r} is not {expected}")
        return value

    def refuse_unsupported(self, value: Value, *, key: str | None = None) -> None:
        """Raise if this release lacks what `value` asks for.

        Raises:
            NotSupportedError: it does, with what to do instead.
        """
        lacking = self.status is Status.UNSUPPORTED and value != self.default
        if lacking or text_of(value) in self.unsupported:
            advice = self.instead or self._advice()
            raise NotSupportedError(f"option {key or self.key}={text_of(value)} is not supported yet: {advice}")

    def _convert(self, text: str) -> Value | None:
        if self.kind is bool:
            return {"true": True, "false": False}.get(text.strip().lower())
        if self.kind is int:
            number = int(text) if _INTEGER.fullmatch(text := text.strip()) else None
            return number if number is not None and self._in_range(number) else None
        if self.kind is float:
            fraction = float(text) if _FLOAT.fullmatch(text := text.strip()) else None
            return fraction if fraction is not None and self._in_range(fraction) else None
        if not self.choices:
            return text
        canonical = {choice.lower(): choice for choice in (*self.choices, *self.unsupported)}
        return canonical.get(text.strip().lower())

    def _in_range(self, number: float) -> bool:
        return math.isfinite(number) and (self.minimum is None or number >= self.minimum)

    def _expected(self) -> str:
        if self.kind is bool:
            return "true or false"
        if self.choices:
            return "one of " + ", ".join((*self.choices, *self.unsupported))
        what = "a whole number" if self.kind is int else "a number"
        return what if self.minimum is None else f"{what} of at least {self.minimum:g}"

    def _advice(self) -> str:
        if self.choices:
            return "use " + " or ".join(self.choices)
        return "leave it out" if self.default is None else f"leave it out or set it to {text_of(self.default)}"


def text_of(value: Value) -> str:
    """A value as Hudi writes it in properties: `true` and `false` in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)
