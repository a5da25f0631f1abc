"""From maps of text to typed options: every key known, every value parsed, nothing guessed."""

from __future__ import annotations

import difflib
import functools
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from pudi.config.arguments import text_given
from pudi.config.groups import ALL_OPTIONS
from pudi.config.option import Option, Options, Scope, Status, Value, given_text
from pudi.errors import InvalidArgumentError, naming

KEY_PREFIXES = ("hoodie.", "pudi.")
"""Prefixes of the keys of options, without those of Spark's readers."""

_log = logging.getLogger("pudi.config")

_BY_KEY: dict[str, Option[Any]] = {key: option for option in ALL_OPTIONS for key in option.keys if not option.is_family}
_BY_LOWER = {key.lower(): key for key in _BY_KEY}
_FAMILIES: tuple[tuple[str, Option[Any]], ...] = tuple(
    sorted(((option.prefix, option) for option in ALL_OPTIONS if option.is_family), key=lambda pair: -len(pair[0]))
)


def find_option(key: str) -> Option[Any] | None:
    """The option that `key` names: by its key, an alias, or the longest family it is of; None for an unknown key."""
    exact = _BY_KEY.get(key)
    if exact is not None:
        return exact
    return next((option for prefix, option in _FAMILIES if key.startswith(prefix)), None)


def option(key: str) -> Option[Any]:
    """The option that `key` names.

    Raises:
        InvalidArgumentError: the option does not exist; the message suggests the nearest key.
    """
    found = find_option(text_given(key, "a key of options"))
    if found is None:
        nearest = difflib.get_close_matches(key, _BY_KEY, n=1, cutoff=0.75)
        hint = f"did you mean {nearest[0]}?" if nearest else "docs/options.md lists what there is"
        raise InvalidArgumentError(f"unknown option {key!r}: {hint}")
    return found


def spelled(key: str) -> str:
    """Return a key as it is declared, given one in any case: Spark hands options over in lower case."""
    return _BY_LOWER.get(key.lower(), key)


def options_of_scope(options: Options, scope: Scope) -> dict[str, Value]:
    """Return the values that were given for options of one scope, by canonical key."""
    return {key: value for key, value in options.given.items() if option(key).scope is scope}


def without_table_options(given: Mapping[str, str]) -> dict[str, str]:
    """Options as given, without those that say what a table is."""
    resolved = resolve(given)
    of_table = {resolved.named.get(key, key) for key in options_of_scope(resolved, Scope.TABLE)}
    return {key: value for key, value in given.items() if key not in of_table}


def resolve(*layers: Mapping[str, str] | None, table: str | None = None) -> Options:
    """Resolve maps of options; an earlier layer wins over a later one, all of them over the defaults.

    Args:
        layers: Hudi's keys and their values as text (Python's own bool, int and float are taken too), the verb's
            options first, then the table's. None is an empty layer.
        table: location of the table that they are about, for errors; None if none is known.

    Raises:
        InvalidArgumentError: an unknown key (the nearest is suggested), a value that does not parse, or one setting
            given twice in a layer under two keys with two values.
        NotSupportedError: a value asks for something that this release lacks.
    """
    given: dict[str, Value] = {}
    named: dict[str, str] = {}
    with naming(None, table):
        for layer in reversed([layer for layer in layers if layer]):
            values, names = _resolve_layer(layer)
            given.update(values)
            named.update(names)
    return Options(given, named)


def resolve_only(options: Mapping[str, str], wanted: Iterable[Option[Any]]) -> Options:
    """Resolve some options of a map and ignore the others.

    Raises:
        InvalidArgumentError, NotSupportedError: as `resolve`.
    """
    keys = {key for option in wanted for key in option.keys}
    return resolve({key: value for key, value in options.items() if key in keys})


def _resolve_layer(layer: Mapping[str, str]) -> tuple[dict[str, Value], dict[str, str]]:
    """The values of one map by canonical key, and the keys that they were given under."""
    values: dict[str, Value] = {}
    named: dict[str, str] = {}
    if not isinstance(layer, Mapping):
        raise InvalidArgumentError(f"options are a mapping of Hudi's keys to texts, not a {type(layer).__name__}")
    for key, raw in layer.items():
        found = option(key)
        value = found.parse(given_text(key, raw), key=key)
        found.refuse_unsupported(value, key=key)
        canonical = key if found.is_family else found.key
        if values.setdefault(canonical, value) != value:
            raise InvalidArgumentError(f"options {named[canonical]} and {key} are one setting, given two values")
        named[canonical] = key
        if found.status is Status.HARMLESS:
            _say_once(key, found.doc)
    return values, named


@functools.cache
def _say_once(key: str, doc: str) -> None:
    _log.info("option %s has no effect in pudi: %s", key, doc)
