"""Programs that can read and write a table: its properties in, one line for each program out.

Releases of Apache Hudi, hudi-rs and Trino as pudi's tests run them: `tests/interop/test_other_releases.py` has 0.15.0,
1.0.2 and 1.1.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pudi.config import Options, TableConfig, WriteOptions, check_readable, check_writable
from pudi.config.new_table import missing_names
from pudi.config.table_options import MERGE_ON_READ
from pudi.errors import NotSupportedError
from pudi.table.diagnosis import Access
from pudi.version import __version__

_ZERO, _ONE, _NEW = "Apache Hudi 0.15", "Apache Hudi 1.0", "Apache Hudi 1.1, 1.2"
_OLD = frozenset({2, 3, 4, 5})
_HUDI = (
    (_ZERO, frozenset({6}), frozenset({6})),
    (_ONE, frozenset({6, 8}), frozenset({6, 8})),
    (_NEW, _OLD | {6, 8, 9}, frozenset({6, 8, 9})),
)
"""Releases, the table versions that they read, and those that they write without an upgrade."""

_BY_SPARK = "from Spark it can't read {} base files (tried with 1.2); its Java readers can"
_UPGRADES = f"it upgrades the table to its own version when it writes, unless {WriteOptions.auto_upgrade} is false"
_READS_ONLY = "it neither writes nor upgrades tables below version 6 (tried with 1.2)"
_SILENT = "the table's properties don't say its partitions, so it finds no rows (tried with 1.2)"
_UNTRIED = "versions below 6 weren't tried"
_ONE_ORDERING = "it knows one ordering field only: reads of log files and upserts fail"
_WITHOUT_NAME = (
    "it writes complex keys of one column without the column's name: it would insert known records again, unless the "
    f"table's keys have no name either ({WriteOptions.complex_keygen_new_encoding})"
)
_VALIDATES = "it refuses to write complex keys of one column unless its validation of them is switched off"
_BACK_AGAIN = "in log files, a late record that follows its delete brings the deleted one back, until a compaction"
_LACKS_NAME = (
    "it doesn't find the ordering field, which the properties state by its newer name alone: late records win in log "
    f"files, and deletes there fail; the next write by pudi adds {TableConfig.ordering.aliases[0]}"
)
_FLAT_ORDER = "it doesn't heed an ordering field inside of a struct: late records win in log files (tried)"
_MISORDERS = frozenset({_ONE_ORDERING, _LACKS_NAME, _FLAT_ORDER})
"""Limits under which log files are merged wrongly, or not at all."""
_NEWEST = {_ZERO: 6, _ONE: 8, _NEW: 9}


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
        limit = _limit(config, who) if known else None
        if upgrades:
            reason = _UPGRADES
        elif not known and config.version in _OLD:
            reason = _UNTRIED
        elif known:
            reason = "" if config.version in written else _READS_ONLY
        else:
            silent = config.version < min(_OLD) and not config.partition_fields
            reason = _SILENT if silent else f"it doesn't know version {config.version}"
        if config.base_file_format != "PARQUET":
            known, reason = False, _BY_SPARK.format(config.base_file_format)
            limit = None
        reads = known and not (limit in _MISORDERS and config.table_type == MERGE_ON_READ)
        spoils = limit in {*_MISORDERS, _WITHOUT_NAME}
        said = "; ".join(text for text in (limit, "" if spoils else reason) if text)
        yield Access(who, reads, known and config.version in written and not spoils, said)
    yield _hudi_rs(config)
    yield _trino(config)


def _limit(config: TableConfig, who: str) -> str | None:
    """Return what a release of Hudi doesn't do as later ones do with a table of a version that it knows."""
    single = config.key_generator_type.startswith("COMPLEX") and len(config.record_key_fields) == 1
    if who == _NEW:
        return _VALIDATES if single and config.version in {6, 8} else None
    if len(config.ordering_fields) > 1:
        return _ONE_ORDERING
    if single:
        return _WITHOUT_NAME
    if TableConfig.ordering.aliases[0] in missing_names(config.raw):
        return _LACKS_NAME
    if who != _ZERO or not _orders_logs(config):
        return None
    return _FLAT_ORDER if _lies_in_struct(config) else _BACK_AGAIN


def _orders_logs(config: TableConfig) -> bool:
    return config.table_type == MERGE_ON_READ and config.merge_mode.compares


def _lies_in_struct(config: TableConfig) -> bool:
    return any("." in name for name in config.ordering_fields)


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
    if _orders_logs(config) and _lies_in_struct(config):
        return Access(who, False, False, _FLAT_ORDER)
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
