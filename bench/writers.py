"""Commits a second of 1, 2, 4 and 8 writing processes, beside Apache Hudi's and delta-rs' writers.

python bench/writers.py --seconds 20

Each process upserts ten records again and again, keys of its own that it wrote before, into a partition of its own or
into one partition that all share. pudi repeats a write that lost a conflict; so does this script for the others. Hudi
writes with two processes and its lock in the file system; it and pudi keep a metadata table, and clean and archive
after commits, by default. delta-rs merges into one partition each time; it keeps no metadata table, and does no
services. The sums are checked: each table has every record once, with its last acknowledged value.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from contention import HUDI, KEY, LOCKS, SCHEMA, Told, in_ms, watch_lock

import pudi
from pudi.testing.race import START_TIMEOUT, Barrier, race

ROWS = 10
OPTIONS = {
    **HUDI,
    f"{KEY}provider": f"{LOCKS}FileSystemBasedLockProvider",
    f"{KEY}wait_time_ms_between_retry": "100",
    f"{KEY}client.wait_time_ms_between_retry": "100",
    "hoodie.metadata.enable": "true",
    "hoodie.embed.timeline.server": "false",
}


def part_of(number: int, shared: bool) -> str:
    """The partition of a writer."""
    return "all" if shared else f"p{number}"


def batch(number: int, shared: bool, value: int) -> pa.Table:
    """The records of a writer."""
    rows = [{"id": f"w{number}-{n}", "part": part_of(number, shared), "v": value} for n in range(ROWS)]
    return pa.Table.from_pylist(rows, SCHEMA)


def _repeat(barrier: Barrier, seconds: float, write: Callable[[int], int]) -> Told:
    """Write values in turn for some seconds; `write` returns the conflicts it met."""
    told = Told()
    barrier.wait(START_TIMEOUT)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        told.conflicts += write(told.done + 1)
        told.done += 1
    return told


def run_pudi(barrier: Barrier, number: int, path: str, shared: bool, seconds: float, claims: bool) -> Told:
    """Upsert with pudi's local engine."""
    options = {"hoodie.write.num.retries.on.conflict.failures": "1000", "pudi.write.claim.file.groups": str(claims)}
    table = pudi.Table(path, options=options)
    watched = Told()
    watch_lock(watched)
    told = _repeat(barrier, seconds, lambda value: table.upsert(batch(number, shared, value)).attempts - 1)
    told.held, told.waited = watched.held, watched.waited
    return told


def run_delta(barrier: Barrier, number: int, path: str, shared: bool, seconds: float, claims: bool) -> Told:
    """Merge with delta-rs, again after a conflict."""
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    where = f"t.id = s.id and t.part = s.part and t.part = '{part_of(number, shared)}'"

    def write(value: int) -> int:
        for conflicts in range(100_000):
            try:
                merge = DeltaTable(path).merge(batch(number, shared, value), where, source_alias="s", target_alias="t")
                merge.when_matched_update_all().when_not_matched_insert_all().execute()
            except CommitFailedError:
                continue
            return conflicts
        raise AssertionError("no commit succeeded")

    return _repeat(barrier, seconds, write)


def run_hudi(barrier: Barrier, number: int, path: str, shared: bool, seconds: float, claims: bool) -> Told:
    """Upsert with Apache Hudi's Spark writer, again after a conflict."""
    from support import hudi, spark

    session = spark.start(Path(tempfile.mkdtemp()), hudi.SESSION)

    def frame(value: int) -> object:
        return spark.to_frame(session, batch(number, shared, value))

    def write(value: int) -> int:
        for conflicts in range(1000):
            try:
                frame(value).write.format("hudi").options(**OPTIONS).mode("append").save(path)  # type: ignore[attr-defined]
            except Exception as error:  # noqa: BLE001 - Py4J gives each error of the JVM one type
                if not any(sign in str(error) for sign in ("onflict", "Lock", "concurrent")):
                    raise RuntimeError(str(error)[:2000]) from None
                continue
            return conflicts
        raise AssertionError("no commit succeeded")

    session.read.format("hudi").load(path).count()  # the session's first work isn't measured
    told = _repeat(barrier, seconds, write)
    session.stop()
    return told


def measure(what: str, path: str, writers: int, shared: bool, seconds: float) -> float:
    """Fill a table, let the writers at it, check it and print a row; the commits a second."""
    first = pa.concat_tables([batch(n, shared, 0) for n in range(writers)])
    if what == "delta-rs":
        import deltalake

        deltalake.write_deltalake(path, first, partition_by=["part"])
    else:
        pudi.create(path, SCHEMA, record_key="id", partition_by="part", name="t").upsert(first)
    run = {"Hudi": run_hudi, "delta-rs": run_delta}.get(what, run_pudi)
    told = race(run, (path, shared, seconds, what.endswith("claims")), racers=writers)
    if what == "delta-rs":
        found = deltalake.DeltaTable(path).to_pyarrow_table(columns=["id", "v"])
    else:
        table = pudi.Table(path)
        assert table.check().ok
        found = table.scan(columns=["id", "v"]).to_arrow()
    expected = {f"w{n}-{row}": each.done for n, each in enumerate(told) for row in range(ROWS)}
    assert found.num_rows == len(expected)
    assert dict(zip(*found.to_pydict().values(), strict=True)) == expected
    done, counts = sum(each.done for each in told), [each.done for each in told]
    held = [one for each in told for one in each.held]
    row = (
        what,
        writers,
        "one" if shared else "own",
        f"{done / seconds:.2f}",
        sum(each.conflicts for each in told),
        f"{min(counts)}–{max(counts)}, median {statistics.median(counts):g}",
        in_ms(held) if held else "-",
    )
    print("|", " | ".join(map(str, row)), "|", flush=True)
    return done / seconds


def main() -> None:
    """Print the table, and how many times Hudi's commits pudi's are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--writers", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--only", nargs="*", help="these writers")
    given = parser.parse_args()
    print("| writer | processes | partition | commits a second | conflicts | of a process | lock held, ms |")
    print("|---|---|---|---|---|---|---|")
    for shared in (False, True):
        rates = {}
        with tempfile.TemporaryDirectory() as folder:
            for what in given.only or ("pudi", "pudi with claims", "Hudi", "delta-rs"):
                if what == "pudi with claims" and not shared:
                    continue
                for writers in [2] if what == "Hudi" else given.writers:
                    path = str(Path(folder, f"{what}{writers}"))
                    rates[what, writers] = measure(what, path, writers, shared, given.seconds)
        if {("pudi", 2), ("Hudi", 2)} <= rates.keys():
            print(f"two writers: {rates['pudi', 2] / rates['Hudi', 2]:.1f} times Hudi", flush=True)


if __name__ == "__main__":
    main()
