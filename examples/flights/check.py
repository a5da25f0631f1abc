"""Check of the tables' rows against a recomputation with pandas, straight from the source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from engines import Engine
from feed import BATCHES, FLIGHT, KEY, Batch, flights_of, read_source
from pipeline import DELAYS, Pipeline

THE_DAY = "2013-01-15"


@dataclass(frozen=True)
class Finding:
    """What was compared, how many rows that should be, and how many differ."""

    what: str
    rows: int
    differences: int


def expected_flights() -> pd.DataFrame:
    """Every flight that left, in its final state."""
    flights = flights_of(read_source()).to_pandas()
    flights = flights[flights.departed.notna()]
    landed = flights.arrived.notna()
    after = flights.arrived.where(landed, flights.departed)
    return flights.assign(
        status=landed.map({True: "arrived", False: "departed"}),
        event_time=flights.planned_utc + pd.to_timedelta(after, unit="min"),
    )


def expected_delays(flights: pd.DataFrame) -> pd.DataFrame:
    """Their delays by carrier and day."""
    days = flights.groupby(["carrier", "day", "month"], as_index=False)
    return days.agg(
        departed=("flight", "size"),
        measured=("arr_delay", "count"),
        dep_minutes=("dep_delay", "sum"),
        arr_minutes=("arr_delay", lambda minutes: minutes.sum(min_count=1)),
        worst=("arr_delay", "max"),
    )


def believed(batches: list[Batch]) -> pd.DataFrame:
    """The newest version of each flight of `THE_DAY` among all that had come with that day's batch."""
    until = [batch.events for batch in batches[: BATCHES.index(THE_DAY) + 1]]
    events = pd.concat(pq.read_table(file).to_pandas() for file in until)
    newest = events.sort_values("event_time").drop_duplicates(KEY, keep="last")
    return newest[newest.day == THE_DAY]


def summary(flights: pd.DataFrame) -> dict[str, float]:
    """How many flights had left and landed, and the mean delay on arrival."""
    return {
        "departed": len(flights),
        "landed": int((flights.status == "arrived").sum()),
        "mean delay": round(float(flights.arr_delay.mean()), 2),
    }


def time_travel(pipeline: Pipeline, engine: Engine) -> tuple[dict[str, float], dict[str, float]]:
    """The figures of `THE_DAY` right after its batch, and those of now."""
    then = pipeline.commits[THE_DAY].instant
    question = {
        "columns": ["status", "arr_delay"],
        "where": f"month = '{THE_DAY[:7]}' AND day = '{THE_DAY}' AND status <> 'scheduled'",
    }
    return (
        summary(engine.pandas(pipeline.flights.scan(**question, as_of=then))),
        summary(engine.pandas(pipeline.flights.scan(**question))),
    )


def check(pipeline: Pipeline, engine: Engine, batches: list[Batch], folder: Path) -> list[Finding]:
    """Compare both tables with the recomputed rows, which stay in `folder`."""
    folder.mkdir(parents=True)
    flights = expected_flights()
    findings = []
    for table, rows, schema in (
        (pipeline.flights, flights, FLIGHT),
        (pipeline.delays, expected_delays(flights), DELAYS),
    ):
        file = folder / f"{Path(table.path).name}.parquet"
        pq.write_table(pa.Table.from_pandas(rows[schema.names], schema, preserve_index=False), file)
        differences = engine.differences(table.scan(meta_fields=False), file)
        findings.append(Finding(f"table {file.stem}", len(rows), differences))
    then, _ = time_travel(pipeline, engine)
    wanted = believed(batches)
    findings.append(Finding(f"time travel to {THE_DAY}", len(wanted), int(then != summary(wanted))))
    return findings
