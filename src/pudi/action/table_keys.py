"""Make a table's key generator from its properties, and refuse what generated keys rule out."""

from __future__ import annotations

from pudi.config import Options, TableConfig, WriteOptions, timebased
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.plan import Operation
from pudi.record import KeyGenerator, Moments

_BY_KEY = frozenset({"UPSERT", "DELETE", "MERGE", "UPDATE"})
"""Operations that look for records by their keys."""


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
    return KeyGenerator(
        kind=kind,
        record_key_fields=config.record_key_fields,
        partition_fields=config.partition_fields,
        hive_style=config.hive_style,
        url_encode=config.url_encode,
        slash_dates=config.slash_separated_dates,
        partition_types=config.partition_types if kind == "CUSTOM" else (),
        moments=None
        if settings is None
        else Moments(
            kind=settings.kind,
            output_format=settings.output_format,
            unit=settings.unit,
            input_formats=settings.input_formats,
            input_zone=settings.input_zone,
            output_zone=settings.output_zone,
        ),
        names_single=names_single,
    )


def check_generated(keys: KeyGenerator, operation: Operation, options: WriteOptions, table: str) -> None:
    """Refuse what is impossible with generated record keys: the key of a future record is unknown.

    Raises:
        NotSupportedError: an operation that finds records by key.
        InvalidArgumentError: records are to be combined by key (AutoRecordKeyGenerationUtils refuses that too).
    """
    if not keys.generates:
        return
    if operation.value in _BY_KEY:
        raise NotSupportedError(
            f"{operation.value.lower()} needs record keys, and this table has none: Hudi generates them for each "
            "write. Use insert or bulk_insert, or make a table with record_key=…",
            table=table,
        )
    if options.combine_before_insert:
        raise InvalidArgumentError(
            f"{WriteOptions.combine_before_insert}=true combines records by key, and this table generates its keys",
            table=table,
        )
