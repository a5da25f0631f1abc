"""Records on their way into files: a user's DataFrame in, a checked and keyed frame that is evaluated once out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa

from pudi.context import Context
from pudi.context.runtime import cached_property
from pudi.engine.spark.buckets import bucket_numbers
from pudi.engine.spark.columns import ARRIVAL, BUCKET, DATA, HASH
from pudi.engine.spark.file_tasks import FINGERPRINT_SQL, Fingerprint, KeyColumns
from pudi.engine.spark.session import check_session, functions, in_workers, memory_and_disk, spark_errors, struct_type
from pudi.errors import InvalidArgumentError, SchemaError, UnavailableError
from pudi.record import EMPTY_TEXTS, SPARK_ERROR_MARK, check_paths, null_texts, spark_key_columns
from pudi.schema import META_FIELDS, PARTITION_PATH, RECORD_KEY, conform, incoming, is_untyped, spark_struct_to_arrow
from pudi.schema.arrays import ordered_by
from pudi.schema.spark_types import arrow_to_spark_type, quote, quote_path
from pudi.schema.types import is_java_integer
from pudi.task.engine import InputSpec, RepeatedKeysError

_EXACT_INTEGERS = {pa.float32(): 1 << 24, pa.float64(): 1 << 53}
"""Integers up to which a float holds all."""


def kept_column(field: pa.Field, given: pa.DataType) -> str | None:
    """SQL for a column that keeps its type in the table; fails by `raise_error` for a value that would change.

    Args:
        field: the table's column.
        given: the data's type.

    Returns:
        The SQL, named as the column; None where the column is left to the Arrow code as it is.
    """
    lost = _changing_values(field.name, given, field.type)
    if lost is None or given.equals(field.type):
        return None
    name = quote(field.name)
    cast = f"CAST({name} AS {arrow_to_spark_type(pa.field(field.name, field.type))})"
    shown = field.name.replace("\\", "?").replace("'", "?")
    if not lost:
        return f"{cast} AS {name}"
    began = f"{SPARK_ERROR_MARK}SchemaError: column {shown} has type {given}, and value "
    ended = f" is no {field.type}, which is its type in the table: no write changes that of a key or ordering column"
    message = f"CONCAT('{began}', CAST({name} AS STRING), '{ended}')"
    return f"CASE WHEN {lost} THEN RAISE_ERROR({message}) ELSE {cast} END AS {name}"


def _changing_values(column: str, given: pa.DataType, kept: pa.DataType) -> str | None:
    """Return a predicate for values that a conversion changes; empty for none, None for unknown types."""
    types, name = pa.types, quote(column)
    if types.is_integer(given) and types.is_integer(kept):
        if given.bit_width <= kept.bit_width:
            return ""
        return f"{name} NOT BETWEEN {-(1 << kept.bit_width - 1)} AND {(1 << kept.bit_width - 1) - 1}"
    if types.is_integer(given) and kept in _EXACT_INTEGERS:
        most = _EXACT_INTEGERS[kept]
        return f"{name} NOT BETWEEN {-most} AND {most}"
    if types.is_decimal(kept) and (types.is_integer(given) or types.is_decimal(given)):
        whole, scale = (given.precision - given.scale, given.scale) if types.is_decimal(given) else (19, 0)
        lost = [f"{name} <> ROUND({name}, {kept.scale})"] if scale > kept.scale else []
        if whole > kept.precision - kept.scale:
            most = 10 ** (kept.precision - kept.scale)
            lost.append(f"{name} <= {-most}BD OR {name} >= {most}BD")
        return " OR ".join(lost)
    return None


_STORED_KEY = "_pudi_stored_key"
_ARROW_OVERHEAD = 4.0
"""Bytes of a text in Arrow in addition to its characters."""


@dataclass(frozen=True, slots=True)
class Group:
    """Counts of some records.

    Attributes:
        records: how many.
        fingerprint: of the hashes of their keys.
        text_bytes: length of all their texts.
    """

    records: int
    fingerprint: Fingerprint
    text_bytes: int = 0


@dataclass(frozen=True)
class SparkRecords:
    """Checked records of one write.

    Args:
        frame: the table's columns (for deletes, those of the keys), not yet evaluated.
        spec: what the write takes in.
    """

    frame: Any
    spec: InputSpec
    _persisted: list[Any] = field(default_factory=list)
    _groups: dict[str, Group] = field(default_factory=dict)

    @cached_property
    def keyed(self) -> Any:
        """The records as key, partition path, hash of both, order of arrival and data; kept once evaluated.

        All is kept in one struct, which Spark leaves as it is; single columns it would encode and take statistics of
        (30k rows of 14 columns: 0.30 s instead of 0.49).
        """
        # Spark shares what equal queries keep, and the first of two to finish would take it from the other: this field
        # makes each write's query another one
        own = f"true AS {quote(f'_pudi_{Context().new_id()}')}"
        data = [] if self.spec.keys_only else [quote(name) for name in self.spec.schema.names]
        frame = self.with_keys()
        extra = [BUCKET] if self.spec.buckets is not None else []
        made = (
            RECORD_KEY,
            PARTITION_PATH,
            *extra,
            f"xxhash64({', '.join(self._hashed())}) AS {HASH}",
            f"monotonically_increasing_id() AS {ARRIVAL}",
        )
        kept = self.keep(frame.selectExpr(f"STRUCT({', '.join([*made, own, *data])}) AS {DATA}"))
        names = (RECORD_KEY, PARTITION_PATH, HASH, ARRIVAL, *extra)
        return self._combined(kept.selectExpr(DATA, *(f"{DATA}.{name} AS {name}" for name in names)))

    def with_keys(self) -> Any:
        """Key, partition path and data, and the number of the bucket where the table has some; nothing is kept."""
        wanted = _wanted(self.spec)
        columns = spark_key_columns(self.spec.keys, wanted)
        frame = self.frame if columns is not None else self._keyed_in_python(wanted)
        key, path = columns or (RECORD_KEY, PARTITION_PATH)
        if self.spec.stored_keys:
            key = f"coalesce({_STORED_KEY}, {key})"
        # a cast takes a collation off, under which keys that differ would be equal
        frame = frame.selectExpr(
            f"CAST({key} AS STRING) AS {RECORD_KEY}",
            f"CAST({path} AS STRING) AS {PARTITION_PATH}",
            *self._stored(),
        )
        if self.spec.buckets is None:
            return frame
        return frame.withColumn(BUCKET, bucket_numbers(frame, self.spec.buckets))

    def _stored(self) -> list[str]:
        """The table's columns as they are stored; see `null_texts`."""
        nulls = set(null_texts(self.spec.keys, self.spec.schema))
        empty = ", ".join(f"'{text}'" for text in EMPTY_TEXTS)
        return [
            f"CASE WHEN {quote(name)} NOT IN ({empty}) THEN {quote(name)} END AS {quote(name)}"
            if name in nulls
            else quote(name)
            for name in ([] if self.spec.keys_only else self.spec.schema.names)
        ]

    def _combined(self, keyed: Any) -> Any:
        """The winners among versions of one key, where a global index asks for that; see `latest_per_key`."""
        rule = self.spec.combine
        if rule is None and not self.spec.unique:
            return keyed
        if self._has_each_key_once(keyed):
            return keyed
        if rule is None or self.spec.unique:
            raise RepeatedKeysError("records share a key", table=self.spec.table)
        fields = rule.ordering_types(self.spec.schema) if rule.compares else {}
        order = [sql for name, kind in fields.items() for sql in _ordered(f"{DATA}.{quote_path(name)}", kind)]
        last = f"max(struct({', '.join([*order, ARRIVAL])})).{ARRIVAL} AS {ARRIVAL}"
        latest = keyed.groupBy(RECORD_KEY).agg(functions(keyed).expr(last))
        return self.keep(keyed.join(latest.select(ARRIVAL), [ARRIVAL], "left_semi"))

    def _has_each_key_once(self, keyed: Any) -> bool:
        """Whether no key comes twice, in its partition unless versions are combined; if so, `groups` are known too.

        Longs are grouped in place of texts: two keys of one hash, which are as good as never there, are taken for one.
        """
        sql = functions(keyed)
        path = sql.expr(f"max({PARTITION_PATH}) AS {PARTITION_PATH}")
        by, paths = ((RECORD_KEY,), (path,)) if self.spec.combine is not None else ((PARTITION_PATH, HASH), ())
        of_keys = keyed.groupBy(*by).agg(
            *paths,
            sql.expr("count(1) AS n"),
            *((sql.expr(f"max({HASH}) AS {HASH}"),) if HASH not in by else ()),
            sql.expr(f"sum({self._text_bytes()}) AS size"),
        )
        sums = [sql.expr(total) for total in ("sum(n)", *FINGERPRINT_SQL, "sum(size)", "max(n)")]
        with spark_errors(self.spec.table, "combining records of one key"):
            rows = of_keys.groupBy(PARTITION_PATH).agg(*sums).collect()
        once = all(row[5] == 1 for row in rows)
        if once:
            self._groups.update({row[0]: Group(row[1], Fingerprint(row[2], row[3]), row[4]) for row in rows})
        return once

    @cached_property
    def groups(self) -> Mapping[str, Group]:
        """Counts by partition path; the first look evaluates the input."""
        sql, keyed = functions(self.frame), self.keyed
        found = self._groups
        if not found:
            counts = [sql.expr(count) for count in ("count(1)", *FINGERPRINT_SQL, f"sum({self._text_bytes()})")]
            with spark_errors(self.spec.table, "counting the records"):
                rows = keyed.groupBy(PARTITION_PATH).agg(*counts).collect()
            found = {row[0]: Group(row[1], Fingerprint(row[2], row[3]), row[4]) for row in rows}
        if self.spec.keys.partition_fields:
            check_paths(pa.array(list(found), pa.string()))
        return found

    def collected(self) -> pa.Table:
        """Bring the records into this process, in order of arrival; they must be few.

        Returns:
            Record key, partition path, and the table's columns unless the write takes keys alone.

        Raises:
            UnavailableError: they are others than were counted.
        """
        data = [] if self.spec.keys_only else columns_of_data(self.spec.schema.names)
        frame = self.keyed.selectExpr(ARRIVAL, HASH, RECORD_KEY, PARTITION_PATH, *data).coalesce(1)
        with spark_errors(self.spec.table, "collecting the records"):
            rows = in_workers(frame, to_bytes, "batch BINARY").collect()
        found = ordered_by(pa.concat_tables([pa.ipc.open_stream(bytes(row[0])).read_all() for row in rows]), ARRIVAL)
        keys, partitions = (found[name].cast(pa.string()) for name in (RECORD_KEY, PARTITION_PATH))
        counted = {each["values"]: each["counts"] for each in partitions.value_counts().to_pylist()}
        expected = reduce(Fingerprint.plus, (group.fingerprint for group in self.groups.values()), Fingerprint())
        if counted != self.counts or Fingerprint.of(found[HASH]) != expected:
            raise UnavailableError(
                "the input was evaluated again and gave other records; nothing was written. Save the input as files "
                "first, and write these",
                table=self.spec.table,
            )
        if self.spec.keys_only:
            return pa.table([keys, partitions], names=[RECORD_KEY, PARTITION_PATH])
        wanted = conform(found.select(self.spec.schema.names), self.spec.schema, table=self.spec.table, evolved=True)
        return wanted.add_column(0, RECORD_KEY, keys).add_column(1, PARTITION_PATH, partitions)

    @property
    def schema(self) -> pa.Schema:
        """The table's columns as they are once the records are in."""
        return self.spec.schema

    @property
    def counts(self) -> Mapping[str, int]:
        """Records by partition path."""
        return {partition: group.records for partition, group in self.groups.items()}

    @property
    def record_bytes(self) -> float | None:
        """Bytes of an average record in Arrow, by the types of its columns and the lengths of its texts."""
        total = sum(self.counts.values())
        if not total:
            return None
        return sum(_width(f.type) for f in _wanted(self.spec)) + sum(g.text_bytes for g in self.groups.values()) / total

    def _hashed(self) -> list[str]:
        """Columns that identify an input record.

        Generated keys depend on the record's position, so a retried task must see the same order.
        """
        places = [PARTITION_PATH, RECORD_KEY]
        if not self.spec.keys.generates or self.spec.keys_only:
            return places
        return [*places, *(quote(f.name) for f in self.spec.schema if not pa.types.is_nested(f.type))]

    def _text_bytes(self) -> str:
        present = [] if self.spec.keys_only else list(self.spec.schema)
        texts = [f.name for f in present if f.type in {pa.string(), pa.binary()}]
        sizes = [f"coalesce(octet_length({DATA}.{quote(name)}), 0)" for name in texts]
        return " + ".join([f"CAST(octet_length({RECORD_KEY}) AS BIGINT)", *sizes])

    def _keyed_in_python(self, wanted: pa.Schema) -> Any:
        needed = pa.schema([f for f in wanted if f.name in self.spec.keys.columns])
        schema = self.frame.schema.jsonValue()
        for name in (RECORD_KEY, PARTITION_PATH):
            schema["fields"].append({"name": name, "type": "string", "nullable": False, "metadata": {}})
        add = KeyColumns(self.spec.keys, needed, self.spec.table)
        return in_workers(self.frame, add.run, struct_type(schema))

    def keep(self, frame: Any) -> Any:
        """Persist a frame until `release`; rows that the JVM holds are evaluated immediately."""
        with spark_errors(self.spec.table, "looking at the records"):
            kept = frame.persist(memory_and_disk())
        self._persisted.append(kept)
        return kept

    def release(self) -> None:
        """Release the cached frames."""
        while self._persisted:
            self._persisted.pop().unpersist()


def to_bytes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches as Arrow streams, one a row, in a Python worker."""
    for batch in batches:
        if batch.num_rows:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["batch"])


def columns_of_data(names: Sequence[str]) -> list[str]:
    """Return the expressions that select the table's columns from keyed records, by name."""
    return [f"{DATA}.{quote(name)}" for name in names]


def prepare(data: Any, spec: InputSpec) -> SparkRecords:
    """Check a DataFrame's columns and types; nothing is evaluated.

    Raises:
        SchemaError: a column is missing, is unknown or has another type.
        SetupError: the session's Spark is too old.
    """
    check_session(data.sparkSession)
    spec.check_stored_keys(data.columns)
    spec.check_key_columns(data.columns)
    with spark_errors(spec.table, "looking at the data's columns"):
        given = spark_struct_to_arrow(_columns(data, spec))
    data, given = typed(data, given, spec.schema)
    spec = spec.evolved(given)
    wanted = _wanted(spec)
    conform(
        given.empty_table().select([n for n in given.names if not spec.keys_only or n in wanted.names]),
        wanted,
        table=spec.table,
        evolved=not spec.keys_only,
        promoted=spec.as_text,
    )
    stored = [f"CAST({RECORD_KEY} AS STRING) AS {_STORED_KEY}"] if spec.stored_keys else []
    return SparkRecords(data.selectExpr(*stored, *(_column(field, given, spec) for field in wanted)), spec)


def typed(data: Any, given: pa.Schema, known: pa.Schema) -> tuple[Any, pa.Schema]:
    """Cast void columns, and columns with void inside, to the table's types where the table has the column.

    Args:
        data: a frame.
        given: its columns.
        known: the table's columns.

    Returns:
        The frame, and its columns now.
    """
    voids = {field.name for field in given if field.name in known.names and is_untyped(field.type)}
    if not voids:
        return data, given
    made = incoming(pa.schema([field for field in given if field.name in voids]), known)
    columns = {f.name: f"CAST({quote(f.name)} AS {arrow_to_spark_type(f)}) AS {quote(f.name)}" for f in made}
    frame = data.selectExpr(*(columns.get(name, quote(name)) for name in data.columns))
    return frame, pa.schema([made.field(f.name) if f.name in voids else f for f in given])


def _column(field: pa.Field, given: pa.Schema, spec: InputSpec) -> str:
    """A column of the data as it is, in the table's type where that is kept, null where the data lacks it."""
    if field.name in given.names:
        if field.name in spec.as_text and not given.field(field.name).type.equals(field.type):
            return f"CAST({quote(field.name)} AS STRING) AS {quote(field.name)}"
        cast = kept_column(field, given.field(field.name).type) if field.name in spec.kept_columns else None
        return cast or quote(field.name)
    return f"CAST(NULL AS {arrow_to_spark_type(field)}) AS {quote(field.name)}"


def _columns(data: Any, spec: InputSpec) -> dict[str, Any]:
    """The data's columns as the JSON value of a StructType, without those that don't matter."""
    struct: dict[str, Any] = data.schema.jsonValue()
    wanted = set(_wanted(spec).names)
    fields = [f for f in struct["fields"] if f["name"] in wanted or not (spec.keys_only or f["name"] in META_FIELDS)]
    _check_case(fields, spec.table)
    return {**struct, "fields": fields}


def _check_case(fields: Sequence[Mapping[str, Any]], table: str) -> None:
    seen: set[str] = set()
    for name in (f["name"] for f in fields):
        if name.casefold() in seen:
            raise SchemaError(
                f"the data has column {name!r} twice, or twice but for case; drop or rename one", table=table
            )
        seen.add(name.casefold())


def _wanted(spec: InputSpec) -> pa.Schema:
    if not spec.keys_only:
        return spec.schema
    return pa.schema([f for f in spec.schema if f.name in spec.keys.columns])


def _width(kind: pa.DataType) -> float:
    """Bytes of a non-text value in Arrow."""
    try:
        return float(kind.bit_width) / 8
    except ValueError:  # of no fixed width
        children = [kind.field(number).type for number in range(kind.num_fields)]
        return _ARROW_OVERHEAD + sum(_width(child) for child in children)


def collect_distinct(frame: Any, table: str, most: int) -> pa.Table:
    """Return the distinct rows of a frame.

    Args:
        frame: the frame.
        table: location of the table, for errors.
        most: greatest number of distinct rows.

    Raises:
        InvalidArgumentError: there are more.
        UnavailableError: Spark failed.
    """
    check_session(frame.sparkSession)
    with spark_errors(table, "collecting the keys"):
        rows = in_workers(frame.distinct().limit(most + 1).coalesce(1), to_bytes, "batch BINARY").collect()
    found = [pa.ipc.open_stream(bytes(row[0])).read_all() for row in rows]
    whole = pa.concat_tables(found) if found else spark_struct_to_arrow(frame.schema.json()).empty_table()
    if whole.num_rows > most:
        raise InvalidArgumentError(
            f"keys has more than {most:,} distinct rows: scan without keys, and join the frames", table=table
        )
    return whole


def _ordered(value: str, kind: pa.DataType) -> list[str]:
    """Return expressions whose order in a struct is that of ordering values, see `MergeRule.newer_wins`.

    Spark's order of nulls, numbers and NaN is the same, but for a null among ints and for zeros of both signs.
    """
    if is_java_integer(kind):
        return [f"coalesce({value}, {'0' if pa.types.is_int32(kind) else 'DATE_FROM_UNIX_DATE(0)'})"]
    if pa.types.is_floating(kind):
        return [value, f"NOT startswith(CAST({value} AS STRING), '-')"]
    return [value]
