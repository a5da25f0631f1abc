"""Contestants without a JVM: pudi on its local engine, and delta-rs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from operations import FILTER, Setting, Stopwatch, one_key, stopwatch, versions
from trips import BATCHES, SCHEMA

READ = ["ts", "driver", "fare"]


class Local:
    """What both share: batches are held in memory, so their reading isn't measured."""

    def open(self, data: Path, table: Path, setting: Setting) -> None:
        self.data, self.path, self.setting = data, table, setting
        self.batches = {name: pq.read_table(data / name).combine_chunks() for name in BATCHES}

    def versions(self) -> dict[str, str]:
        return versions(self.packages)

    def close(self) -> None:
        pass


class PudiLocal(Local):
    """pudi, fed with Arrow."""

    packages = ("pudi", "pyarrow")

    def bulk_insert(self) -> Stopwatch:
        import pudi

        with stopwatch() as watch:
            pudi.create(
                self.path,
                SCHEMA,
                record_key="uuid",
                partition_by="city",
                ordering="ts",
                table_type=self.setting.table_type,
            )
            self.table = pudi.Table(self.path, options=self.setting.options)
            result = self.table.bulk_insert(self.batches["trips"])
        self.since = result.completion_time
        return watch

    def upsert_10(self) -> Stopwatch:
        return self._upsert("upsert_10")

    def upsert_1_new(self) -> Stopwatch:
        return self._upsert("upsert_1_new")

    def one_row(self) -> Stopwatch:
        return self._upsert("one_row")

    def delete_1(self) -> Stopwatch:
        with stopwatch() as watch:
            self.table.delete(self.batches["delete_1"])
        return watch

    def aggregate(self) -> Stopwatch:
        with stopwatch() as watch:
            scan = self.table.scan(columns=READ)
            _ = scan.plan
            watch.planned()
            watch.answer = aggregate(scan.to_batches())
        return watch

    def filtered(self) -> Stopwatch:
        with stopwatch() as watch:
            scan = self.table.scan(columns=READ, where=FILTER)
            _ = scan.plan
            watch.planned()
            watch.answer = aggregate(scan.to_batches())
        return watch

    def incremental(self) -> Stopwatch:
        with stopwatch() as watch:
            scan = self.table.changes(since=self.since, columns=READ)
            _ = scan.plan
            watch.planned()
            watch.answer = aggregate(scan.to_batches())
        return watch

    def point_lookup(self) -> Stopwatch:
        key = one_key(self.data)
        with stopwatch() as watch:
            scan = self.table.scan(columns=READ, where=f"uuid = '{key}'")
            _ = scan.plan
            watch.planned()
            watch.answer = aggregate(scan.to_batches())
        return watch

    def compact(self) -> Stopwatch:
        with stopwatch() as watch:
            self.table.compact()
        return watch

    def plain_scan(self) -> Stopwatch:
        """The same aggregate by pyarrow alone, over the files that the table has now."""
        files = [str(self.path / s.base.path) for s in self.table.file_slices()]
        with stopwatch() as watch:
            dataset = ds.dataset(files, format="parquet")
            watch.planned()
            watch.answer = aggregate(dataset.scanner(columns=READ).to_reader())
        return watch

    def plain_write(self) -> Stopwatch:
        """`write_table` of the columns that the bulk insert wrote, meta fields among them."""
        rows = self.table.scan().to_arrow()
        with stopwatch() as watch:
            pq.write_table(rows, self.path.with_name("plain.parquet"), compression="zstd")
        return watch

    def _upsert(self, batch: str) -> Stopwatch:
        with stopwatch() as watch:
            self.table.upsert(self.batches[batch])
        return watch


class DeltaRs(Local):
    """delta-rs by its Python package `deltalake`."""

    packages = ("deltalake",)

    def bulk_insert(self) -> Stopwatch:
        import deltalake

        with stopwatch() as watch:
            deltalake.write_deltalake(str(self.path), self.batches["trips"], partition_by=["city"])
        return watch

    def upsert_10(self) -> Stopwatch:
        return self._merge("upsert_10")

    def upsert_1_new(self) -> Stopwatch:
        return self._merge("upsert_1_new")

    def one_row(self) -> Stopwatch:
        return self._merge("one_row")

    def delete_1(self) -> Stopwatch:
        with stopwatch() as watch:
            self._merger("delete_1").when_matched_delete().execute()
        return watch

    def aggregate(self) -> Stopwatch:
        return self._query("")

    def filtered(self) -> Stopwatch:
        return self._query(f"WHERE {FILTER}")

    def _merge(self, batch: str) -> Stopwatch:
        with stopwatch() as watch:
            self._merger(batch).when_matched_update_all().when_not_matched_insert_all().execute()
        return watch

    def _merger(self, batch: str):
        import deltalake

        return deltalake.DeltaTable(str(self.path)).merge(
            self.batches[batch],
            predicate="t.city = s.city AND t.uuid = s.uuid",
            source_alias="s",
            target_alias="t",
        )

    def _query(self, where: str) -> Stopwatch:
        import deltalake

        with stopwatch() as watch:
            table = deltalake.DeltaTable(str(self.path))
            watch.planned()
            sql = f"SELECT count(ts), max(ts), max(driver), count(driver), sum(fare) FROM trips {where}"
            row = pa.table(deltalake.QueryBuilder().register("trips", table).execute(sql)).to_pylist()[0]
            values = list(row.values())
            watch.answer = (values[0], round(values[-1], 2))
        return watch


def aggregate(rows: pa.RecordBatchReader) -> tuple[int, float]:
    """Rows and the sum of fares; the other columns are aggregated too, so that they are read."""
    count, fares, latest, last = 0, 0.0, None, ""
    for batch in rows:
        if batch.num_rows:
            count += batch.num_rows
            fares += pc.sum(batch["fare"]).as_py()
            newest = pc.max(batch["ts"])
            latest = newest if latest is None or newest.value > latest.value else latest
            last = max(last, pc.max(batch["driver"]).as_py())
    return count, round(fares, 2)
