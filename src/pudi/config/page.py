"""The option page of the docs, made from the declarations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pudi.config.groups import GROUPS
from pudi.config.option import Option, Status, text_of

_INTRO = """\
# Options

Made by `pudi.config.options_page()` from the declarations in `pudi.config`: change those, then run `make docs`.

Options take Hudi's own keys, and text (Python's numbers and truth values are taken too). A verb's options win over the
`Table`'s, those over the defaults. Each key is one of

- **supported**: same effect as in Hudi;
- **harmless**: known, without effect here; logged once by `pudi.config`;
- **not supported**: any value but the default raises `NotSupportedError` with an alternative;
- unknown: an `InvalidArgumentError` that suggests the nearest key.

A value that does not parse is an error, never a default. A key that ends in `.*` stands for every key with that
beginning, those apart that have a line of their own.
"""

_NOTES = {
    "Of a table": """\
Given to `pudi.create`, kept in the table's properties, and not to be contradicted later. The columns of keys,
partitions and ordering are arguments of `pudi.create`; a Hudi job's keys for them are taken too.
"""
}
_PLAIN = {"Of a reader", "Also known from Hudi jobs"}
"""Sections without types and defaults, since most of their options have no effect here."""


def options_page() -> str:
    """The option page, as Markdown."""
    return "\n".join((_INTRO, *(_section(title, options) for title, options in GROUPS.items())))


def _section(title: str, options: Iterable[Option[Any]]) -> str:
    notes = [_NOTES[title]] if title in _NOTES else []
    rows = _plain(options) if title in _PLAIN else _settings(options)
    return "\n".join([f"## {title}\n", *notes, rows])


def _settings(options: Iterable[Option[Any]]) -> str:
    head = ["| key | type | default | status | meaning |", "|---|---|---|---|---|"]
    rows = [
        f"| {_keys(option)} | {_type(option)} | {_default(option)} | {option.status.value} | {_meaning(option)} |"
        for option in options
    ]
    return "\n".join([*head, *rows]) + "\n"


def _plain(options: Iterable[Option[Any]]) -> str:
    head = ["| key | status | meaning |", "|---|---|---|"]
    rows = [f"| {_keys(option)} | {_status(option)} | {_meaning(option)} |" for option in options]
    return "\n".join([*head, *rows]) + "\n"


def _keys(option: Option[Any]) -> str:
    first, *others = (f"`{key}`" for key in option.keys)
    return f"{first}, also {', '.join(others)}" if others else first


def _type(option: Option[Any]) -> str:
    return ", ".join(f"`{choice}`" for choice in option.choices) or option.kind.__name__


def _default(option: Option[Any]) -> str:
    return "" if option.default is None else f"`{text_of(option.default)}`" if option.default != "" else "empty"


def _status(option: Option[Any]) -> str:
    allowed = option.status is Status.UNSUPPORTED and option.default is not None
    return f"{option.status.value} but as {_default(option)}" if allowed else option.status.value


def _meaning(option: Option[Any]) -> str:
    lacking = [f"`{value}`" for value in option.unsupported]
    refused = f" Not supported yet: {', '.join(lacking)}." if lacking else ""
    advice = f" Instead: {option.instead}." if option.instead else ""
    return f"{option.doc}{refused}{advice}".replace("|", "\\|")
