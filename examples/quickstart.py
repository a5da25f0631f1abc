"""Create, write and read a table on one machine."""

import tempfile

import pyarrow as pa

import pudi

schema = pa.schema({"id": pa.int64(), "city": pa.string(), "fare": pa.float64(), "ts": pa.int64()})
rows = pa.table([[1, 2, 3], ["rome", "oslo", "rome"], [9.5, 20.0, 7.0], [1, 1, 1]], schema=schema)
trips = pudi.create(tempfile.mkdtemp() + "/trips", schema, record_key="id", partition_by="city", ordering="ts")

first = trips.insert(rows)
trips.upsert(pa.table([[2, 4], ["oslo", "rome"], [25.0, 12.0], [2, 2]], schema=schema))
trips.delete(pa.table({"id": [3], "city": ["rome"]}))

print("now", trips.scan(columns=["id", "fare"], where="fare > 9").to_arrow().sort_by("id").to_pylist())
print("then", trips.scan(columns=["id", "fare"], as_of=first.instant).to_arrow().sort_by("id").to_pylist())
print("since", trips.changes(since=first.completion_time, columns=["id", "fare"]).to_arrow().sort_by("id").to_pylist())
