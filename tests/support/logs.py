"""Log files put by hand over base files that pudi wrote, and what a reader must make of them, in plain dicts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from pudi.client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.format import Action, CommitMetadata, WriteStat
from pudi.format.delete_encode import encode_deletes
from pudi.format.log_block import BlockKind, Header, encode_block
from pudi.format.log_data import encode_avro, encode_parquet
from pudi.schema import META_FIELDS, arrow_to_avro
from pudi.timeline import Instant
from support.rows import Row, from_arrow


@dataclass
class LogTable:
    """A merge-on-read table whose delta commits are written here, block by block.

    Attributes:
        path: the folder of a table that pudi made, with its base files; it's made merge-on-read.
        key: name of the record key's only field.
        partition: name of the partition's only field.
        ordering: name of the ordering field; None for commit time ordering.
        parquet: whether data blocks are Parquet.
        base: the rows of base files, with meta fields.
        deltas: for each delta commit its instant, rows and deleted rows.
    """

    path: Path
    key: str = "uuid"
    partition: str = "city"
    ordering: str | None = "ts"
    parquet: bool = False
    base: list[Row] = field(default_factory=list)
    deltas: list[tuple[str, list[Row], list[Row]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        file = self.path / ".hoodie" / "hoodie.properties"
        file.write_text(re.sub("=COPY_ON_WRITE", "=MERGE_ON_READ", file.read_text()))

    @property
    def meta(self) -> MetaClient:
        return MetaClient.open(str(self.path), None, {})

    def delta(self, upserts: pa.Table, deletes: pa.Table | None = None, *, complete: bool = True) -> Instant:
        """A delta commit with one log file for each partition's file group, a data and a delete block in each."""
        meta = self.meta
        instant = meta.store.request(Action.DELTACOMMIT)
        instant = meta.store.start(instant)
        stats: dict[str, tuple[WriteStat, ...]] = {}
        gone = from_arrow(deletes) if deletes is not None else []
        rows = from_arrow(upserts)
        for partition in sorted({str(row[self.partition]) for row in [*rows, *gone]}):
            mine = upserts.filter(pa.array([row[self.partition] == partition for row in rows], pa.bool_()))
            dead = [str(row[self.key]) for row in gone if row[self.partition] == partition]
            stats[partition] = (self._write(meta, instant, partition, mine, dead),)
        if not complete:
            return instant
        schema = arrow_to_avro(upserts.schema, meta.config.name)
        done = meta.store.complete(
            instant, CommitMetadata(stats, extra_metadata={"schema": schema}, operation_type="UPSERT")
        )
        self.deltas.append((instant.requested, self.stamped(rows, instant.requested), self.stamped(gone, "")))
        return done

    def _write(self, meta: MetaClient, instant: Instant, partition: str, rows: pa.Table, dead: list[str]) -> WriteStat:
        file_slice = TableSnapshot.load(meta).view().slices(partition)[0]
        assert file_slice.base is not None
        old = meta.config.version < 8
        named, version = (
            (file_slice.base.instant, len(list(self.logs(partition))) + 1) if old else (instant.requested, 1)
        )
        name = f".{file_slice.file_id}_{named}.log.{version}_0-0-0"
        content = b""
        schema = pa.schema([*(pa.field(meta_field, pa.string()) for meta_field in META_FIELDS), *rows.schema])
        headers = {Header.INSTANT_TIME: instant.requested, Header.SCHEMA: arrow_to_avro(schema, "t")}
        if rows.num_rows:
            stamps = [instant.requested, "0", None, partition, file_slice.file_id]
            metas = [pa.repeat(pa.scalar(stamp, pa.string()), rows.num_rows) for stamp in stamps]
            metas[2] = rows[self.key].cast(pa.string()).combine_chunks()
            full = pa.Table.from_arrays([*metas, *(c.combine_chunks() for c in rows.columns)], schema=schema)
            data = encode_parquet(full) if self.parquet else encode_avro(full, headers[Header.SCHEMA])
            content += encode_block(BlockKind.PARQUET if self.parquet else BlockKind.AVRO, headers, data)
        if dead:
            keys = encode_deletes(pa.array(dead), pa.array([partition] * len(dead)))
            content += encode_block(BlockKind.DELETE, headers, keys)
        (self.path / partition / name).write_bytes(content)
        return WriteStat(
            file_id=file_slice.file_id, path=f"{partition}/{name}", prev_commit=named, num_writes=rows.num_rows,
            num_deletes=len(dead), partition_path=partition,
        )  # fmt: skip

    def logs(self, partition: str) -> Iterable[Path]:
        """The log files of a partition, in the order of their making."""
        return sorted((self.path / partition).glob(".*.log.*"), key=lambda path: path.stat().st_mtime_ns)

    def stamped(self, rows: Iterable[Row], instant: str) -> list[Row]:
        """Rows with the meta fields that a model can know."""
        return [
            {
                "_hoodie_commit_time": instant,
                "_hoodie_record_key": str(row[self.key]),
                "_hoodie_partition_path": row[self.partition],
                **row,
            }
            for row in rows
        ]

    def expected(self, until: str | None = None, among: set[str] | None = None) -> list[Row]:
        """The rows that a reader sees: logs folded in order, and laid over the base rows.

        Args:
            until: greatest requested time of what counts.
            among: the commits whose rows count, in an incremental query.
        """
        folded: dict[tuple[str, str], Row | None] = {}
        for instant, rows, gone in self.deltas:
            if (until is not None and instant > until) or (among is not None and instant not in among):
                continue
            for row in rows:
                who = _identity(row)
                old = folded.get(who)
                folded[who] = row if old is None else self._winner(old, row)
            folded |= {_identity(row): None for row in gone}
        result = []
        for row in self.base:
            if among is not None and row["_hoodie_commit_time"] not in among:
                continue
            who = _identity(row)
            new = folded.pop(who) if who in folded else row
            if new is not None:
                result.append(self._winner(row, new))
        return result + [row for row in folded.values() if row is not None]

    def _winner(self, old: Row, new: Row) -> Row:
        return new if self.ordering is None or new[self.ordering] >= old[self.ordering] else old


def _identity(row: Row) -> tuple[str, str]:
    return row["_hoodie_partition_path"], row["_hoodie_record_key"]
