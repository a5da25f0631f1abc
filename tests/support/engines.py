"""The two engines behind one face: make the input they take, read a scan into plain rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pytest

from support.rows import Row, from_arrow, from_spark
from support.spark import to_frame


class Engine(Protocol):
    """What a test needs of an engine."""

    @property
    def name(self) -> str:
        """`local` or `spark`."""

    def frame(self, table: pa.Table) -> Any:
        """The table as this engine takes it."""

    def read(self, scan: Any) -> list[Row]:
        """A scan's rows in plain form."""

    def columns(self, scan: Any) -> list[str]:
        """The names of a scan's result, in order."""


@dataclass(frozen=True)
class LocalEngine:
    """Arrow in, Arrow out."""

    name: str = "local"

    def frame(self, table: pa.Table) -> pa.Table:
        return table

    def read(self, scan: Any) -> list[Row]:
        return from_arrow(scan.to_arrow())

    def columns(self, scan: Any) -> list[str]:
        return list(scan.to_arrow().column_names)


@dataclass(frozen=True)
class SparkEngine:
    """Spark frames in, Spark frames out."""

    spark: Any
    name: str = "spark"

    def frame(self, table: pa.Table) -> Any:
        return to_frame(self.spark, table)

    def read(self, scan: Any) -> list[Row]:
        return from_spark(scan.to_spark(self.spark))

    def columns(self, scan: Any) -> list[str]:
        return list(scan.to_spark(self.spark).columns)


THREE_WAYS = pytest.mark.parametrize(
    "engine",
    ["local", *(pytest.param(name, marks=pytest.mark.spark) for name in ("spark", "spread"))],
    indirect=True,
)
"""Runs a test on the local engine and on both ways that Spark writes; see the fixture `engine`."""


def per_engine(
    local: Iterable[Any], spark: Iterable[Any], spread: Iterable[Any] = (), tasks: Iterable[Any] = ()
) -> list[Any]:
    """Parameter sets that begin with `engine` (indirect): all of `local` on Arrow, the fewer others on Spark.

    For what doesn't depend on the engine in all its values: a write takes milliseconds locally and a second on Spark.
    """

    def values(value: Any) -> tuple[Any, ...]:
        return value if isinstance(value, tuple) else (value,)

    return [pytest.param("local", *values(value)) for value in local] + [
        pytest.param(name, *values(value), marks=pytest.mark.spark)
        for name, several in (("spark", spark), ("spread", spread), ("tasks", tasks))
        for value in several
    ]
