"""Where a history's table is, and the engine that works on it: this process's memory, or Spark and a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pyarrow as pa

import pudi
import pudi.spark
from pudi.client.meta_client import MetaClient
from pudi.context import Context
from pudi.storage import open_storage
from pudi.testing import InlineExecutor, TimerClock
from pudi.writes.create import create_table
from support.histories.operations import Hands
from support.histories.setups import Setup
from support.rows import Row, from_arrow, from_spark
from support.simulated.disk import Disk, ProcessStorage
from support.spark import to_frame


@contextmanager
def one_thread() -> Iterator[None]:
    """Have Arrow compute in the calling thread too: its threads cost more than they save with tables of a few rows."""
    before = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        yield
    finally:
        pa.set_cpu_count(before)


class Place(Hands, Protocol):
    """A new table, and an engine."""

    def open(self, options: Mapping[str, str]) -> None:
        """Open the table anew, with options for its verbs."""

    def wait(self) -> None:
        """Let a second pass."""

    def read(self, scan: Any) -> tuple[list[str], list[Row]]:
        """Return the names and the rows of a scan."""

    def query(self, text: str) -> list[Row]:
        """Return the rows of a query of the table `t`."""


class Memory:
    """A table in this process's memory, in one thread: all ids and times follow from the seed.

    Its files take the times of a clock of its own.
    """

    more: Mapping[str, Any] = {}

    def __init__(self, setup: Setup, schema: pa.Schema) -> None:
        self._clock = TimerClock()
        executor = InlineExecutor(self._clock, setup.seed)
        self._context = Context(self._clock, setup.seed, executor, alone=True)
        root = f"memory://histories/{setup.seed}"
        create_table(root, schema, name=None, storage_options=None, context=self._context, **setup.create_arguments)
        made = open_storage(root)
        files = {info.path: bytes(made.read(info.path)) for info in made.list()}
        made.delete(list(files))
        disk = Disk(root, files, self._clock.now_ms())
        self._storage = ProcessStorage(disk, _Process(self._clock), executor)  # type: ignore[arg-type]
        self.open(setup.verb_options)

    def open(self, options: Mapping[str, str]) -> None:
        meta = MetaClient.open(self._storage.root, None, options, self._context, self._storage)
        self.table = pudi.Table.of(meta, options)

    def wait(self) -> None:
        self._clock.advance(1)

    def frame(self, rows: pa.Table) -> Any:
        return rows

    def sql(self, statement: str, source: pa.Table | None = None) -> Any:
        return pudi.sql(statement, t=self.table, **({} if source is None else {"s": source}))

    def read(self, scan: Any) -> tuple[list[str], list[Row]]:
        table = scan.to_arrow()
        return table.column_names, from_arrow(table)

    def query(self, text: str) -> list[Row]:
        return from_arrow(self.sql(text))


class _Process:
    """The only process; arguments of `call` as of `support.simulated.world.Process`."""

    def __init__(self, clock: TimerClock) -> None:
        self._clock = clock

    @property
    def world(self) -> Any:
        return SimpleNamespace(now_ms=self._clock.now_ms())

    def call(self, kind: str, path: str, do: Callable[[], Any], data: bytes | None = None) -> Any:
        return do()


class OnSpark:
    """A table in a folder, and a Spark session, which has the setup's time zone."""

    def __init__(self, spark: Any, folder: Path, setup: Setup, schema: pa.Schema) -> None:
        self._spark, self.more = spark, {"spark": spark}
        self._path = os.fspath(folder / f"seed-{setup.seed}")
        arguments = {name: value or None for name, value in setup.create_arguments.items()}
        pudi.create(self._path, schema, **arguments)
        spark.conf.set("spark.sql.session.timeZone", setup.zone)
        self.open(setup.verb_options)

    def open(self, options: Mapping[str, str]) -> None:
        self.table = pudi.Table(self._path, options)

    def wait(self) -> None:
        """Time passes by itself."""

    def frame(self, rows: pa.Table) -> Any:
        return to_frame(self._spark, rows)

    def sql(self, statement: str, source: pa.Table | None = None) -> Any:
        if source is not None:
            self.frame(source).createOrReplaceTempView("s")
        options = dict(self.table.options)
        for name, value in options.items():
            self._spark.conf.set(name, value)
        try:
            name = f"hudi.`{self._path}`"
            for before in ("FROM t", "INTO t", "UPDATE t", "OVERWRITE t", "TABLE t"):
                if before in statement:
                    frame = pudi.spark.sql(self._spark, statement.replace(before, before[:-1] + name, 1))
                    return from_spark(frame)
            raise AssertionError(statement)
        finally:
            for name in options:
                self._spark.conf.unset(name)

    def read(self, scan: Any) -> tuple[list[str], list[Row]]:
        frame = scan.to_spark(self._spark)
        return frame.columns, from_spark(frame)

    def query(self, text: str) -> list[Row]:
        rows: list[Row] = self.sql(text)
        return rows
