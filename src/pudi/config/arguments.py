"""Check what callers give by hand: texts, names, maps and paths of another type, or that no file can hold."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from pudi.errors import InvalidArgumentError


def text_given(value: object, what: str, table: str | None = None) -> str:
    """Return a text that a caller gave.

    Args:
        value: what was given.
        what: name of the argument, for the error.
        table: location of the table, for the error; None if none is known.

    Raises:
        InvalidArgumentError: it is of another type, or has half of a surrogate pair, which no file can hold.
    """
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{what} is a text, not {type(value).__name__}", table=table)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"{what} {value!r} has half of a surrogate pair, which is no character: correct the text", table=table
        ) from error
    return value


def names_given(value: object, what: str, table: str | None = None) -> tuple[str, ...]:
    """Return names that a caller gave as one text or several; none for None.

    Raises:
        InvalidArgumentError: as `text_given`, or they are no texts.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        return (text_given(value, what, table),)
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        raise InvalidArgumentError(f"{what} is a text or a list of texts, not {type(value).__name__}", table=table)
    return tuple(text_given(each, what, table) for each in value)


def map_given(value: object, what: str, table: str | None = None) -> dict[str, Any]:
    """Return a map that a caller gave; empty for None.

    Raises:
        InvalidArgumentError: it is no map, or a key is no text.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"{what} is a map of names to values, not {type(value).__name__}", table=table)
    return {text_given(key, f"a key of {what}", table): each for key, each in value.items()}


def texts_given(value: object, what: str, table: str | None = None) -> dict[str, str]:
    """Return a map of texts that a caller gave; empty for None.

    Raises:
        InvalidArgumentError: as `map_given`, or a value is no text.
    """
    return {key: text_given(each, f"{what}[{key!r}]", table) for key, each in map_given(value, what, table).items()}


def count_given(value: object, what: str, table: str | None = None) -> int:
    """Return a number of things that a caller gave.

    Raises:
        InvalidArgumentError: it is no whole number of 1 or more.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgumentError(f"{what}={value!r}: it is a whole number, 1 or more", table=table)
    return value


def seconds_given(value: object, what: str, table: str | None = None) -> float:
    """Return a number of seconds that a caller gave.

    Raises:
        InvalidArgumentError: it is no number of 0 or more.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidArgumentError(f"{what}={value!r}: it is a number of seconds, 0 or more", table=table)
    return value


def path_given(value: object, what: str = "the path") -> str:
    """Return a location that a caller gave.

    Raises:
        InvalidArgumentError: it is no path, or no storage can have it.
    """
    if not isinstance(value, str | os.PathLike):
        raise InvalidArgumentError(f"{what} is a text or a path, not {type(value).__name__}")
    path = text_given(os.fspath(value), what)
    if "\0" in path:
        raise InvalidArgumentError(f"{what} {path!r} has a character of code 0, which no storage takes")
    return path
