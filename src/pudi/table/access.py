"""Programs that can read and write a table: its properties in, one line for each program out.

Sources: HoodieTableVersion and the versions that releases of Apache Hudi write (hoodie.write.table.version); hudi-rs
and Trino as pudi's tests run them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pudi.config import Options, TableConfig, WriteOptions, check_readable, check_writable
from pudi.errors import NotSupportedError
from pudi.table.diagnosis import Access
from pudi.version import __version__

_OLD = frozenset({2, 3, 4, 5})
_HUDI = (
    ("Apache Hudi 0.14, 0.15", _OLD | {6}, _OLD | {6}),
    ("Apache Hudi 1.0", frozenset({6, 8}), frozenset({6, 8})),
    ("Apache Hudi 1.1, 1.2", _OLD | {6, 8, 9}, frozenset({6, 8, 9})),
)
"""Releases, the table versions that they read, and those that they write without an upgrade."""

_BY_SPARK = "from Spark it can't read {} base files (tried with 1.2); its Java readers can"
_UPGRADES = f"it upgrades the table to its own version when it writes, unless {WriteOptions.auto_upgrade} is false"
_READS_ONLY = "it neither writes nor upgrades tables below version 6 (tried with 1.2)"
_SILENT = "the table's properties don't say its partitions, so it finds no rows (tried with 1.2)"
_NEWEST = {"Apache Hudi 0.14, 0.15": 6, "Apache Hudi 1.0": 8, "Apache Hudi 1.1, 1.2": 9}


def readers(config: TableConfig, options: Options, table: str) -> Iterator[Access]:
    """Programs that can read and write a table.

    Args:
        config: its properties.
        options: the user's.
        table: its root, for messages.
    """
    reads, why = _allowed(lambda: check_readable(config, table))
    writes, why_not = _allowed(lambda: check_writable(config, table, options))
    yield Access(f"pudi {__version__}", reads, writes, why or why_not)
    for who, read, written in _HUDI:
        known = config.version in read
        upgrades = known and config.version in written and config.version < _NEWEST[who]
        if upgrades:
            reason = _UPGRADES
        elif known:
            reason = "" if config.version in written else _READS_ONLY
        else:
            silent = config.version < min(_OLD) and not config.partition_fields
            reason = _SILENT if silent else f"it doesn't know version {config.version}"
        if config.base_file_format != "PARQUET":
            known, reason = False, _BY_SPARK.format(config.base_file_format)
        yield Access(who, known, known and config.version in written, reason)
    yield _hudi_rs(config)
    yield _trino(config)


def _allowed(check: Callable[[], None]) -> tuple[bool, str]:
    try:
        check()
    except NotSupportedError as error:
        return False, error.message
    return True, ""


def _hudi_rs(config: TableConfig) -> Access:
    who = "hudi-rs 0.5"
    if config.base_file_format != "PARQUET":
        return Access(who, False, False, f"it doesn't read base files of the format {config.base_file_format}")
    if config.version not in {6, 8, 9}:
        return Access(who, False, False, f"it doesn't know version {config.version}")
    return Access(who, True, False, "it only reads, and it can't read timestamps without a time zone")


def _trino(config: TableConfig) -> Access:
    who = "Trino 476"
    if config.base_file_format != "PARQUET":
        return Access(who, False, False, f"it doesn't read base files of the format {config.base_file_format}")
    if config.version not in {6, 8, 9}:
        return Access(who, False, False, f"reading version {config.version} wasn't tried")
    limits = [] if config.table_type == "COPY_ON_WRITE" else ["base files alone"]
    limits += ["until commits are archived"] if config.version > 6 else []
    return Access(who, True, False, ", ".join(["it only reads", *limits]))
