"""Reading log files, partial updates and memory, figure by figure, on the local engine.

    python bench/logs.py                       # Hudi writes the log files that are read
    python bench/logs.py --rows 10000 --writer pudi

- Merged reading: log records a second and core, of Avro and of Parquet log files: ten upserts of a tenth of the rows
  over a base file. The time that the base file alone takes is taken off.
- A partial update of one of a hundred columns: bytes that it writes beside those of whole rows.
- Merging log files of ten times the bound on memory: what the process takes at most.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from trips import SCHEMA, again, make

import pudi

ROOT = Path(__file__).resolve().parent.parent
START = np.datetime64("2026-01-01T00:00:00", "us")
UPSERTS = 10

FORMAT = "hoodie.logfile.data.block.format"
HUDI_JOB = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from spark import Hudi
from operations import Setting
data, table, kind = Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
hudi = Hudi("3g")
hudi.open(data, table, Setting("logs", "", (), table_type="mor", options={"hoodie.logfile.data.block.format": kind}))
hudi.bulk_insert()
for number in range(int(sys.argv[5])):
    hudi.upsert(f"upsert{number}")
hudi.close()
"""


def write_data(folder: Path, rows: int) -> None:
    """The trips of one city, and upserts of a tenth of them each."""
    rng = np.random.default_rng(11)
    trips = make(rng, rows, START)
    city = SCHEMA.get_field_index("city")
    trips = trips.set_column(city, SCHEMA.field(city), pa.array(["nyc"] * rows))
    batches = {"trips": trips}
    for number in range(UPSERTS):
        chosen = rng.choice(rows, rows // UPSERTS, replace=False)
        batches[f"upsert{number}"] = again(rng, trips, chosen, START + np.timedelta64(40 + number, "D"))
    for name, batch in batches.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(batch, folder / name / "0.parquet", compression="zstd")


def write_by_pudi(data: Path, path: Path, kind: str) -> None:
    pudi.create(path, SCHEMA, record_key="uuid", partition_by="city", ordering="ts", table_type="mor")
    table = pudi.Table(path, options={FORMAT: kind})
    table.bulk_insert(pq.read_table(data / "trips"))
    for number in range(UPSERTS):
        table.upsert(pq.read_table(data / f"upsert{number}"))


def write_by_hudi(data: Path, path: Path, kind: str) -> None:
    command = [sys.executable, "-c", HUDI_JOB, str(Path(__file__).parent), str(data), str(path), kind, str(UPSERTS)]
    subprocess.run(command, check=True)


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    taken = []
    for _ in range(1 + repeats):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def reading(work: Path, rows: int, writer: str) -> None:
    """Log records a second on one core."""
    write_data(work / "data", rows)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    for kind in ("avro", "parquet"):
        path = work / kind
        {"hudi": write_by_hudi, "pudi": write_by_pudi}[writer](work / "data", path, kind)
        table = pudi.Table(path)
        logs = sum(len(s.logs) for s in table.file_slices())
        assert logs >= UPSERTS, "every upsert wrote log files"
        for columns in (None, ["ts", "driver", "fare"]):
            scan = {"columns": columns}
            assert table.scan(**scan).to_arrow().num_rows == rows
            merged = seconds(lambda table=table, scan=scan: table.scan(**scan).to_arrow())
            base = seconds(lambda table=table, scan=scan: table.scan(**scan, read_optimized=True).to_arrow())
            rate = UPSERTS * (rows // UPSERTS) / max(1e-9, merged - base)
            print(
                f"{kind} logs of {writer}, {'all columns' if columns is None else f'{len(columns)} columns'}: merged "
                f"{merged:.2f} s, base alone {base:.2f} s: {rate / 1e6:.2f} million log records a second and core"
            )


def partial(work: Path, rows: int) -> None:
    """Bytes of an update of one of a hundred columns, of about 20 bytes each."""
    names = [f"c{n:03}" for n in range(100)]
    rng = np.random.default_rng(5)
    texts = {name: [f"{value:020}" for value in rng.integers(0, 10**18, rows)] for name in names}
    data = pa.table({"k": [f"k{n:09}" for n in range(rows)], **texts})
    written = {}
    for kind in ("whole", "partial"):
        pudi.create(work / kind, data.schema, record_key="k", table_type="mor")
        table = pudi.Table(work / kind, options={"pudi.update.partial": str(kind == "partial").lower()})
        table.bulk_insert(data)
        written[kind] = table.update({"c007": "c008"}, where="k IS NOT NULL").bytes_written
    share = written["partial"] / written["whole"]
    print(
        f"an update of one of 100 columns: {written['partial']:,} bytes, whole rows {written['whole']:,}: {share:.1%}"
    )


MEASURE = """
import json, resource, sys, threading, time
import pyarrow as pa, pudi
path, limit = sys.argv[1], sys.argv[2]

def anonymous():
    return int(next(l for l in open("/proc/self/status") if l.startswith("RssAnon")).split()[1]) << 10

most, done = anonymous(), False
def watch():
    global most
    while not done:
        most = max(most, anonymous())
        time.sleep(0.01)
threading.Thread(target=watch, daemon=True).start()
table = pudi.Table(path, options={"hoodie.memory.merge.max.size": limit})
before, began = anonymous(), time.perf_counter()
rows = sum(batch.num_rows for batch in table.scan().to_batches())
print(json.dumps([rows, time.perf_counter() - began, most - before, pa.default_memory_pool().max_memory()]))
"""


def memory(work: Path, rows: int) -> None:
    """What merging takes where the log files need ten times the bound, and without one."""
    path = work / "heavy"
    schema = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("text", pa.string())])
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    pudi.create(path, schema, record_key="k", ordering="ts", table_type="mor", options=options)
    table = pudi.Table(path, options={**options, "hoodie.logfile.data.block.max.size": str(8 << 20)})
    rng, taken = np.random.default_rng(2), 0
    for _ in range(UPSERTS):
        numbers = rng.choice(4 * rows, rows // 4, replace=False)
        batch = {"k": [f"k{n}" for n in numbers], "ts": numbers, "text": [f"{n:0400}" for n in numbers]}
        made = pa.table(batch, schema=schema)
        taken += made.nbytes
        table.upsert(made)
    for limit in (taken // 10, 8 * taken):
        command = [sys.executable, "-c", MEASURE, str(path), str(max(limit, 1 << 20))]
        found, took, process, arrow = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        print(
            f"logs of {taken >> 20} MiB with a bound of {limit >> 20} MiB: {found:,} records in {took:.1f} s, the "
            f"process took {int(process) >> 20} MiB, Arrow {int(arrow) >> 20} MiB"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--writer", choices=("hudi", "pudi"), default="hudi")
    parser.add_argument("--only", choices=("reading", "partial", "memory"))
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "logs")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    wanted = [arguments.only] if arguments.only else ["partial", "memory", "reading"]
    if "partial" in wanted:
        partial(arguments.work / "partial", max(1000, arguments.rows // 50))
    if "memory" in wanted:
        memory(arguments.work / "memory", arguments.rows)
    if "reading" in wanted:
        reading(arguments.work / "reading", arguments.rows, arguments.writer)
    shutil.rmtree(arguments.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
