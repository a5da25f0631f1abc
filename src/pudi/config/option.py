"""An option: its key, type, default, scope and status. Views of options are classes that declare them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypedDict, TypeVar, cast, overload

from pudi.errors import InvalidArgumentError, NotSupportedError

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


def checked_name(hook: str, name: str, function: object) -> str:
    """Return the name to register a function by.

    Args:
        hook: what it is registered as, for the message.
        name: the name in an option; an option separates several names by commas.
        function: the function.

    Raises:
        InvalidArgumentError: the name is empty, has a comma or is one of Hudi's classes, or `function` can't be called.
    """
    if not name.strip() or "," in name or name.startswith("org.apache.hudi."):
        raise InvalidArgumentError(f"{name!r} can't name a {hook}: take a name of your own, without commas")
    if not callable(function):
        raise InvalidArgumentError(f"{hook} {name!r} is no function, but {function!r:.100}")
    return name.strip()


Value: TypeAlias = str | int | bool | float
"""The value of an option, parsed from text."""

_T = TypeVar("_T", bound=Value | None)

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


class Scope(Enum):
    """Place of a setting."""

    TABLE = "table"
    """In the table's properties: given when the table is made, and not to be contradicted later."""
    WRITE = "write"
    """With a writer: given to a `Table` or to one verb."""
    READ = "read"
    """With a reader."""


class Status(Enum):
    """Treatment of an option by this release."""

    SUPPORTED = "supported"
    """Same effect as in Hudi."""
    HARMLESS = "harmless"
    """No effect in pudi, and none needed: accepted, logged once."""
    UNSUPPORTED = "not supported"
    """Asks for a feature that this release lacks: any value except the default raises `NotSupportedError`."""
    FORMAT = "in format('pudi')"
    """Taken by the named format and `pudi.spark.read`. A `Table` refuses it, and says which argument it has instead."""


@dataclass(frozen=True, slots=True)
class Option(Generic[_T]):
    """One option, declared once: as an attribute of an `OptionsView`, or by itself where nothing reads its value.

    `View.name` is the option, `view.name` its value in that view: the one that was given, or the default. As text, in
    messages, an option is its key.

    Attributes:
        key: Hudi's key. One that ends in `.*` stands for every key with that beginning.
        scope: where the setting lives.
        doc: one sentence for the option page.
        kind: type of the value: `str`, `int`, `bool` or `float`.
        default: value of an unset option; None without a default.
        status: what this release does with it.
        choices: the values that this release takes, in their canonical spelling; empty for any.
        unsupported: further values that Hudi knows and this release refuses by name.
        aliases: other keys for the same setting that may stand in a table's properties too.
        job_keys: keys of the option in a Hudi job's configuration.
        minimum: least value of a number.
        instead: what a user does instead, where the setting is refused.
    """

    key: str
    scope: Scope
    doc: str
    kind: type[Value]
    default: _T
    status: Status = Status.SUPPORTED
    choices: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    job_keys: tuple[str, ...] = ()
    minimum: float | None = None
    instead: str = ""

    @overload
    def __get__(self, view: None, owner: type) -> Option[_T]: ...

    @overload
    def __get__(self, view: OptionsView, owner: type) -> _T: ...

    def __get__(self, view: OptionsView | None, owner: type) -> Option[_T] | _T:
        """The option itself on the class of a view, its value on a view."""
        return self if view is None else self.value_in(view.given)

    def __str__(self) -> str:
        return self.key

    def value_in(self, given: Mapping[str, Value]) -> _T:
        """The value in a map of parsed values by canonical key, the default where it has none."""
        value = given.get(self.key)
        return self.default if value is None else cast("_T", value)

    @property
    def is_family(self) -> bool:
        """Whether the option stands for every key with its beginning."""
        return self.key.endswith(".*")

    @property
    def prefix(self) -> str:
        """Return the prefix of a family's keys."""
        return self.key.removesuffix("*")

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
        lacking = self.status in {Status.UNSUPPORTED, Status.FORMAT} and value != self.default
        if lacking or text_of(value) in self.unsupported:
            advice = self.instead or self._advice()
            where = "here" if self.status is Status.FORMAT else "yet"
            raise NotSupportedError(f"option {key or self.key}={text_of(value)} is not supported {where}: {advice}")

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


class Details(TypedDict, total=False):
    """Optional attributes of an `Option`'s declaration."""

    choices: tuple[str, ...]
    unsupported: tuple[str, ...]
    aliases: tuple[str, ...]
    job_keys: tuple[str, ...]
    minimum: float
    instead: str


@dataclass(frozen=True, slots=True)
class Declare:
    """Declares options of one scope and status: `Declare(Scope.WRITE)("hoodie.…", "What it does.", 5, minimum=1)`.

    The type of an option's values is that of its default; without a default it is `kind`, text unless said otherwise.
    """

    scope: Scope
    status: Status = Status.SUPPORTED

    @overload
    def __call__(self, key: str, doc: str, default: _T, **details: Unpack[Details]) -> Option[_T]: ...

    @overload
    def __call__(self, key: str, doc: str, *, kind: type[_T], **details: Unpack[Details]) -> Option[_T | None]: ...

    @overload
    def __call__(self, key: str, doc: str, **details: Unpack[Details]) -> Option[str | None]: ...

    def __call__(
        self,
        key: str,
        doc: str,
        default: Value | None = None,
        *,
        kind: type[Any] = str,
        **details: Unpack[Details],
    ) -> Option[Any]:
        """An option; see `Option` for the arguments."""
        kind = kind if default is None else type(default)
        return Option(key, self.scope, doc, kind, default, self.status, **details)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one call, resolved.

    Attributes:
        given: the values that were given, by canonical key; a key of a family stands for itself.
        named: the keys that they were given under, by canonical key.
    """

    given: Mapping[str, Value] = field(default_factory=dict, hash=False)
    named: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)

    def __getitem__(self, option: Option[_T]) -> _T:
        """The value of an option, its default where none was given."""
        return option.value_in(self.given)

    def explicit(self, option: Option[Any]) -> Value | None:
        """The value that was given for an option; None where none was."""
        return self.given.get(option.key)

    def name_of(self, option: Option[Any]) -> str:
        """The key under which the value of an option was given."""
        return self.named.get(option.key, option.key)

    def having(self, given: Mapping[str, Value]) -> Options:
        """Return the options with some values replaced, by canonical key."""
        return replace(self, given={**self.given, **given})


@dataclass(frozen=True, slots=True)
class OptionsView:
    """Typed values of the options that a subclass declares as its attributes.

    Attributes:
        given: the values that were given for them, by canonical key.
    """

    given: Mapping[str, Value] = field(default_factory=dict, hash=False)

    declared: ClassVar[tuple[Option[Any], ...]] = ()
    """The options of the class, in the order of their declarations."""

    def __init_subclass__(cls) -> None:
        own = (value for value in vars(cls).values() if isinstance(value, Option))
        cls.declared = tuple(dict.fromkeys((*own, *cls.declared)))

    @classmethod
    def of(cls, options: Options) -> Self:
        """The view of resolved options; `Options()` gives the defaults."""
        keys = {option.key for option in cls.declared}
        return cls({key: value for key, value in options.given.items() if key in keys})


def check_regex(option: Option[Any], text: str) -> None:
    """Refuse a value that is no regular expression.

    Raises:
        InvalidArgumentError: it isn't.
    """
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidArgumentError(f"{option}={text!r} is no regular expression: {error}") from error


def names_in(text: str | None) -> tuple[str, ...]:
    """The names that a text lists, separated by commas."""
    return tuple(name for part in (text or "").split(",") if (name := part.strip()))


def text_of(value: Value) -> str:
    """A value as Hudi writes it in properties: `true` and `false` in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def given_text(key: str, value: object) -> str:
    """Return the text of an option that a caller gave, as text or as a number or truth value of Python.

    Raises:
        InvalidArgumentError: it is of another type.
    """
    if isinstance(value, (str, bool, int, float)):
        return text_of(value)
    raise InvalidArgumentError(f"option {key} must be text, not {type(value).__name__}")
