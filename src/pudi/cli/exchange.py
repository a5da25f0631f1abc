"""Commands that bring records in and out: `pudi ingest`, `pudi import`, `pudi export`, `pudi sync` into a catalog.

`pudi ingest` is for users of Hudi what Hudi Streamer is.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path as LocalPath
from typing import TYPE_CHECKING, Annotated

import typer

import pudi
from pudi.cli.common import (
    AsOf,
    Columns,
    Json,
    Merger,
    MetaFields,
    Path,
    SourceOption,
    StorageOption,
    Where,
    WriteOption,
    counted,
    opened,
    pairs,
    say,
    spark_session,
    split,
    stopping_at_signals,
)
from pudi.cli.user_code import imported_transform, register
from pudi.context.runtime import lazy_module
from pudi.errors import CorruptError, InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

    from pudi import ingest as package
    from pudi import schema as schemas
    from pudi.ingest import debezium as events
else:
    package = lazy_module("pudi.ingest")
    schemas = lazy_module("pudi.schema")
    events = lazy_module("pudi.ingest.debezium")


def import_table(
    source: Annotated[str, typer.Argument(help="A folder of Parquet files, Hive-style or not; it stays as it is.")],
    target: Annotated[str, typer.Argument(help="The new table's root.")],
    record_key: Annotated[
        list[str] | None, typer.Option(help="Columns of the record key, with commas between them. Default: generated.")
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(help="Columns that partition the table. Default: those of Hive-style folders."),
    ] = None,
    ordering: Annotated[list[str] | None, typer.Option(help="Columns that order versions of a record.")] = None,
    table_type: Annotated[str, typer.Option(help="cow or mor.")] = "cow",
    name: Annotated[str | None, typer.Option(help="The table's name. Default: the folder's.")] = None,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Rewrite all files; copy no column chunks.")] = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
    source_option: SourceOption = None,
) -> None:
    """Make a Hudi table of a folder of Parquet files, in one commit."""
    table = pudi.import_table(
        source,
        target,
        record_key=split(record_key),
        partition_by=split(partition_by),
        ordering=split(ordering),
        table_type=table_type,
        name=name,
        copy=not rewrite,
        options=pairs("--option", option),
        storage_options=pairs("--storage-option", storage_option) or None,
        source_options=pairs("--source-option", source_option) or None,
    )
    commits = table.timeline.commits
    files = counted(len(table.file_slices()), "file")
    say(f"imported {files} by {commits[-1].requested}" if commits else "imported no rows: the files have none")


def export(
    path: Path,
    out: Annotated[str, typer.Argument(help="The folder to write to; it must be empty or not be there.")],
    format: Annotated[str, typer.Option("--format", "-f", help="parquet, orc, csv, json or arrow.")] = "parquet",
    columns: Columns = None,
    where: Where = None,
    as_of: AsOf = None,
    meta_fields: MetaFields = False,
    merger: Merger = None,
    storage_option: StorageOption = None,
    out_option: Annotated[
        list[str] | None, typer.Option(help="A setting of the other storage, where it differs, as KEY=VALUE.")
    ] = None,
) -> None:
    """Write the rows of a table as plain files."""
    table = opened(path, storage_option, merger)
    scan = table.scan(split(columns), where, as_of=as_of, meta_fields=meta_fields)
    storage = pairs("--out-option", out_option) or pairs("--storage-option", storage_option) or None
    done = scan.to_files(out, format=format, storage_options=storage)
    say(f"wrote {counted(done.rows, 'row')} to {counted(done.files, 'file')}")


def sync(
    path: Path,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="The place: hive://host:9083/db.trips, glue:db.trips, polaris:db.trips, "
            "sqlite:/path/catalog.db/db.trips; or manifest, manifest:absolute.",
        ),
    ],
    complete: Annotated[
        bool,
        typer.Option("--complete", help="Compare all partitions, not only those that changed since the last sync."),
    ] = False,
    as_json: Json = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
) -> None:
    """Register a table in a catalog, where engines find it by name; later only what changed since."""
    table = opened(path, storage_option)
    done = table.sync(to, complete=complete, options=pairs("--option", option))
    say(json.dumps(asdict(done)) if as_json else str(done))


class SourceKind(str, Enum):
    """Kinds of sources of records."""

    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"
    AVRO = "avro"
    ORC = "orc"
    TABLE = "table"
    KAFKA = "kafka"


def ingest(
    source: Annotated[SourceKind, typer.Option(help="Format of files, another table, or a Kafka topic.")],
    path: Annotated[str, typer.Option("--from", help="The folder of files, the other table's root, or the topic.")],
    target: Annotated[str, typer.Option(help="The table's root; it's made if it isn't there.")],
    op: Annotated[str, typer.Option("--op", help="upsert, insert, bulk_insert, delete, …")] = "upsert",
    record_key: Annotated[
        list[str] | None, typer.Option(help="Columns of a new table's record key, with commas between them.")
    ] = None,
    partition_by: Annotated[list[str] | None, typer.Option(help="Columns that partition a new table.")] = None,
    ordering: Annotated[list[str] | None, typer.Option(help="Columns that order versions, in a new table.")] = None,
    table_type: Annotated[str, typer.Option(help="cow or mor, for a new table.")] = "cow",
    schema: Annotated[str | None, typer.Option(help="A file with an Avro schema to read records as.")] = None,
    transform: Annotated[
        list[str] | None, typer.Option(help="A function from records to records, as module:function; repeatable.")
    ] = None,
    sql: Annotated[str | None, typer.Option(help="A file with a query over <SRC>, after the functions.")] = None,
    debezium: Annotated[str | None, typer.Option(help="Records are change events of: postgres, mysql.")] = None,
    error_table: Annotated[str | None, typer.Option(help="Root of a table for bad records.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Where to begin instead: a checkpoint, or earliest. Counts once.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="What a batch takes at most: bytes of files, events, or commits.")
    ] = None,
    deletes: Annotated[bool, typer.Option(help="Whether upserts take in what another table deleted.")] = True,
    kafka: Annotated[list[str] | None, typer.Option(help="A setting of the Kafka client as KEY=VALUE.")] = None,
    registry: Annotated[
        list[str] | None, typer.Option(help="A setting of a registry of Avro schemas, KEY=VALUE.")
    ] = None,
    continuous: Annotated[bool, typer.Option("--continuous", help="Go on until SIGTERM or SIGINT.")] = False,
    interval: Annotated[float, typer.Option(min=0, help="Seconds between looks at a source that had nothing.")] = 10.0,
    max_batches: Annotated[int | None, typer.Option(min=1, help="End after this number of batches.")] = None,
    on_spark: Annotated[bool, typer.Option("--spark", help="Read and write with a Spark session.")] = False,
    merger: Merger = None,
    option: WriteOption = None,
    storage_option: StorageOption = None,
    source_option: SourceOption = None,
) -> None:
    """Take new records of a source into a table, each batch in one commit; print each batch as a line of JSON.

    The commits say where to go on. A signal ends it after the current batch, a second one immediately; either way
    nothing is lost or taken in twice.
    """
    register(merger)
    storage = pairs("--storage-option", storage_option) or None
    of_source = pairs("--source-option", source_option) or storage
    options = pairs("--option", option)
    steps = [imported_transform(each) for each in transform or ()]
    if debezium is not None:
        steps.insert(0, package.debezium_events(debezium))
        options = {**events.debezium_options(debezium), **options}
    if sql is not None:
        steps.append(package.sql_transform(_text("--sql", sql)))
    session, end = spark_session("pudi ingest") if on_spark else (None, lambda: None)
    job = package.Ingestion(
        _SourceArguments(
            source, path, limit, pairs("--kafka", kafka), pairs("--registry", registry), of_source, deletes
        ).source(),
        target,
        op,
        record_key=split(record_key),
        partition_by=split(partition_by),
        ordering=split(ordering),
        table_type=table_type,
        schema=None if schema is None else _schema(schema),
        transforms=steps,
        error_table=error_table,
        checkpoint=checkpoint,
        spark=session,
        options=options,
        storage_options=storage,
        report=lambda done: typer.echo(done.to_json()),
    )
    with stopping_at_signals(job.stop):
        job.run(continuous=continuous, interval_s=interval, max_batches=max_batches)
    end()


@dataclass(frozen=True, slots=True)
class _SourceArguments:
    """The source as the command line describes it.

    Attributes:
        kind: its kind.
        path: its folder, table or topic.
        limit: what a batch takes at most, in the source's unit; None for the source's own limit.
        kafka: settings of the Kafka client.
        registry: settings of a registry of Avro schemas.
        storage: settings of its storage; None for none.
        deletes: whether deletes of another table are taken in.
    """

    kind: SourceKind
    path: str
    limit: int | None
    kafka: dict[str, str]
    registry: dict[str, str]
    storage: dict[str, str] | None
    deletes: bool

    def source(self) -> package.Source:
        """Return the source."""
        kind, limit = self.kind, self.limit
        for name, given in (("--kafka", self.kafka), ("--registry", self.registry)):
            if given and kind is not SourceKind.KAFKA:
                raise InvalidArgumentError(f"{name} is a setting of --source kafka, and this is --source {kind.value}")
        if kind is SourceKind.KAFKA:
            values = package.RegistryValues(self.registry) if self.registry else None
            topic = package.KafkaSource(self.path, self.kafka, values=values)
            return topic if limit is None else replace(topic, max_events=limit)
        if kind is SourceKind.TABLE:
            return package.TableSource(self.path, limit, self.storage, self.deletes)
        files = package.FileSource(self.path, kind.value, storage_options=self.storage)
        return files if limit is None else replace(files, max_bytes=limit)


def _schema(path: str) -> pa.Schema:
    try:
        return schemas.avro_to_arrow(_text("--schema", path))
    except CorruptError as error:
        raise InvalidArgumentError(f"--schema {path!r}: {error.message}") from error


def _text(option: str, path: str) -> str:
    try:
        return LocalPath(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{option} {path!r} can't be read: {error}") from error
