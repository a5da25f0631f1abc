"""All options by section, and the option page of the docs, made from their declarations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pudi.config.clustering_options import ClusteringOptions
from pudi.config.compaction_options import CompactionOptions
from pudi.config.hook_options import CallbackOptions, MetricsOptions, ValidatorOptions
from pudi.config.job_options import FLINK_OPTIONS, JOB_OPTIONS
from pudi.config.lock_settings import LockSettings, TimeOptions
from pudi.config.metadata_options import MetadataOptions
from pudi.config.option import Option, Status, text_of
from pudi.config.read_options import READ_OPTIONS, MergeMemory
from pudi.config.retention_options import ArchiveOptions, CleanOptions, TtlOptions
from pudi.config.sql_options import SqlOptions
from pudi.config.sync_options import HiveClientOptions, PolarisOptions, SyncOptions
from pudi.config.table_options import TABLE_OPTIONS
from pudi.config.write_options import WriteOptions

_LOCKS = tuple(each for each in LockSettings.declared if each not in HiveClientOptions.declared)

GROUPS: dict[str, tuple[Option[Any], ...]] = {
    "Table": TABLE_OPTIONS,
    "Writer": (*WriteOptions.declared, *_LOCKS, *TimeOptions.declared),
    "Metadata table and indexes": MetadataOptions.declared,
    "Compaction": CompactionOptions.declared,
    "Clustering": ClusteringOptions.declared,
    "Cleaning": CleanOptions.declared,
    "Archiving": ArchiveOptions.declared,
    "Partition TTL": TtlOptions.declared,
    "Commit callbacks": CallbackOptions.declared,
    "Pre-commit validators": ValidatorOptions.declared,
    "Metrics": MetricsOptions.declared,
    "Catalogs": (*SyncOptions.declared, *PolarisOptions.declared),
    "Memory for merging": MergeMemory.declared,
    "SQL": SqlOptions.declared,
    "Reader": READ_OPTIONS,
    "Other options of Hudi jobs": JOB_OPTIONS,
    "Options of Hudi's Flink jobs": FLINK_OPTIONS,
}

ALL_OPTIONS: tuple[Option[Any], ...] = tuple(option for group in GROUPS.values() for option in group)


_INTRO = """\
# Options

`make docs` generates this page from the declarations in `pudi.config`; change those, not the page.

Options have Hudi's keys. Values are text; Python numbers and booleans work too. Options of a call override those of the
`Table`, which override the defaults. A key is

- **supported**: it has the same effect as in Hudi;
- **harmless**: it has no effect in pudi and needs none; pudi logs it once (logger `pudi.config`);
- **not supported**: any value except the default raises `NotSupportedError`, which names an alternative;
- unknown: it raises `InvalidArgumentError`, which suggests the most similar key.

A value that can't be parsed is an error; pudi never falls back to the default. A key that ends in `.*` stands for all
keys with this prefix, except those with a line of their own.
"""

_NOTES = {
    "Table": """\
`pudi.create` takes these options and stores them in the table's properties. A later value that contradicts them is an
error. Key, partition and ordering columns are arguments of `pudi.create`; the keys of a Hudi job work too.
"""
}
_PLAIN = {"Reader", "Other options of Hudi jobs"}
"""Sections without types and defaults, since most of their options have no effect in pudi."""


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
    return f"{option.status.value} except {_default(option)}" if allowed else option.status.value


def _meaning(option: Option[Any]) -> str:
    lacking = [f"`{value}`" for value in option.unsupported]
    refused = f" Not supported yet: {', '.join(lacking)}." if lacking else ""
    advice = f" Instead: {option.instead}." if option.instead else ""
    return f"{option.doc}{refused}{advice}".replace("|", "\\|")
