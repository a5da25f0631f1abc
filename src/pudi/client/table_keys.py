"""Make a table's key generator from its properties, and refuse what generated keys rule out."""

from __future__ import annotations

from dataclasses import asdict

from pudi.config import Options, TableConfig, WriteOptions, timebased
from pudi.config.checks import NAMES_KEYS
from pudi.errors import InvalidArgumentError
from pudi.filegroup import PathColumns
from pudi.plan import Operation
from pudi.record import KeyGenerator, Moments, TimestampText


def key_generator(config: TableConfig, options: Options | None = None, *, names_single: bool = True) -> KeyGenerator:
    """Return the table's key generator.

    Args:
        config: the table's configuration.
        options: the writer's, for what the properties don't state (time zones).
        names_single: see `KeyGenerator`.

    Raises:
        InvalidArgumentError: settings of a timestamp-based key generator don't parse.
    """
    kind = config.key_generator_type.removesuffix("_AVRO")
    by_time = kind in {"TIMESTAMP", "CUSTOM"}
    settings = timebased(config.raw, options.given if options is not None else {}) if by_time else None
    # without meta fields nothing says which of the two it is, and Hudi's readers leave the name out
    either = not config.populate_meta_fields and kind == "COMPLEX" and len(config.record_key_fields) == 1
    return KeyGenerator(
        kind=kind,
        record_key_fields=config.record_key_fields,
        partition_fields=config.partition_fields,
        hive_style=config.hive_style,
        url_encode=config.url_encode,
        slash_dates=config.slash_separated_dates,
        partition_types=config.partition_types if kind == "CUSTOM" else (),
        moments=None if settings is None else Moments(**asdict(settings)),
        names_single=names_single and (not either or config.version >= NAMES_KEYS),
        either_spelling=either,
        timestamps=TimestampText.FRACTIONS
        if config.logical_timestamps or (options is not None and options[TableConfig.logical_timestamps])
        else TimestampText.SECONDS,
    )


def path_columns_of(config: TableConfig) -> PathColumns | None:
    """Return the partition columns that the table's files leave out; None if they have all columns."""
    left_out = config.drop_partition_columns and bool(config.partition_fields)
    return PathColumns(key_generator(config)) if left_out else None


def check_generated(keys: KeyGenerator, operation: Operation, options: WriteOptions, table: str) -> None:
    """Refuse to combine new records by key where keys are generated: each gets one of its own.

    Raises:
        InvalidArgumentError: records are to be combined by key (AutoRecordKeyGenerationUtils refuses that too).
    """
    if keys.generates and not operation.looks_up and options.combine_before_insert:
        raise InvalidArgumentError(
            f"{WriteOptions.combine_before_insert}=true combines records by key, and this table generates its keys",
            table=table,
        )
