"""Makes `catalog_entries.jsonl` anew: what real Hudi's HiveSyncTool registers in a real Hive Metastore.

`make golden NAMES=catalog_entries`, or `python tests/golden/make_catalog_entries.py LABEL…` for some of its lines,
which are printed where they differ; without labels the file is written. Needs PySpark 3.5 and Java; the bundle comes
through Ivy.

A line has what is registered, and what makes it: the table's properties, Avro schema and partition paths, and the
options of the sync. This makes such a table without records, with one commit at the line's times, and has Hudi's tool
register it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from pudi.catalogs import CatalogTable, hive
from pudi.catalogs import thrift_client as thrift
from pudi.catalogs.hive import HiveCatalog
from pudi.format import CommitMetadata, encode_commit_metadata, encode_table_properties
from support import spark as spark_support
from support.catalog_entries import ENTRIES, entry, format_entry
from support.hive import serve_hive
from support.hive_sync import SYNC, sync_by_hudi
from support.hudi import SESSION

_BASE = "hoodie.datasource.meta.sync.base.path"
_SPARK_VERSION = "hoodie.meta_sync.spark.version"
"""The option by which Hudi's Spark writers tell the tool who they are."""
_JOB = {
    "hoodie.datasource.write.partitionpath.field": "hoodie.table.partition.fields",
    "hoodie.datasource.write.hive_style_partitioning": "hoodie.datasource.write.hive_style_partitioning",
}
"""Options of a job, from which the tool infers others, and the properties that keep them."""
_FILES = (
    "hoodie.table.metadata.partitions",
    "hoodie.table.metadata.partitions.inflight",
    "hoodie.table.index.defs.path",
)
"""Properties of files that the tables made here lack."""


def table_at(root: Path, case: Mapping[str, Any]) -> None:
    """Make a table without records: its properties, partitions and one commit."""
    properties = {key: value for key, value in case["properties"].items() if key not in _FILES}
    registered = next(iter(case["tables"].values()))["properties"]
    requested, completed = (registered.get(f"last_commit{each}_time_sync") for each in ("", "_completion"))
    if requested is None:
        properties["hoodie.table.create.schema"] = case["schema"]
    meta, has_layout_2 = root / ".hoodie", int(properties["hoodie.table.version"]) >= 8
    timeline = meta / "timeline" if has_layout_2 else meta
    timeline.mkdir(parents=True)
    (meta / "hoodie.properties").write_bytes(encode_table_properties(properties, 0))
    for path in case["paths"]:
        (root / path).mkdir(parents=True, exist_ok=True)
        depth = len(Path(path).parts)
        (root / path / ".hoodie_partition_metadata").write_text(f"commitTime={requested}\npartitionDepth={depth}\n")
    if requested is None:
        return
    merged = properties["hoodie.table.type"] == "MERGE_ON_READ"
    kind = "deltacommit" if merged else "commit"
    commit = CommitMetadata(extra_metadata={"schema": case["schema"]}, operation_type="UPSERT")
    file = timeline / (f"{requested}_{completed}.{kind}" if has_layout_2 else f"{requested}.{kind}")
    file.write_bytes(encode_commit_metadata(commit, 2 if has_layout_2 else 1))
    at = datetime.strptime(completed, "%Y%m%d%H%M%S%f").replace(tzinfo=timezone.utc)
    nanoseconds = round(at.timestamp() * 1000) * 1_000_000
    os.utime(file, ns=(nanoseconds, nanoseconds))


def registered(catalog: HiveCatalog, database: str) -> dict[str, Any]:
    """What the metastore has, in the form of the file."""
    found: dict[str, Any] = {}
    for name, table in catalog.tables(database, catalog.table_names(database)).items():
        listed: list[dict[str, Any]] = []
        if table.partition_columns:
            at = [(1, thrift.STRING, database), (2, thrift.STRING, name), (3, thrift.I16, -1)]
            listed = [partition(each, table) for each in thrift.elements(catalog._call("get_partitions", name, at))]
        found[name] = {**entry(table), "partitions": sorted(listed, key=lambda each: str(each["location"]))}
    return found


def partition(found: Any, table: CatalogTable) -> dict[str, Any]:
    """A partition; its format only where it isn't the table's."""
    descriptor = thrift.value(found, 6)
    form = hive._format(descriptor)
    said = {} if form == table.format else {"format": format_entry(form)}
    return {**said, "location": thrift.text(descriptor, 2), "values": thrift.elements(thrift.value(found, 1))}


def make(spark: Any, metastore: str, catalog: HiveCatalog, case: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a line with what Hudi's tool registers now."""
    label = case["label"]
    root = folder / label
    table_at(root, case)
    options = {**case["options"], f"{SYNC}database": f"made_{label}".lower(), f"{SYNC}metastore.uris": metastore}
    options[_BASE] = options[_BASE].replace(case["root"], str(root)) if _BASE in options else str(root)
    version = next(iter(case["tables"].values()))["properties"].get("spark.sql.create.version")
    if version is not None:  # a Spark job registered it, whose options the tool has too
        kept = case["properties"]
        options |= {_SPARK_VERSION: version, "hoodie.table.name": kept["hoodie.table.name"]}
        options |= {job: kept[key] for job, key in _JOB.items() if key in kept}
    for _ in range(2 if case["note"] == "twice" else 1):
        sync_by_hudi(spark, metastore, root, options)
    found = registered(catalog, options[f"{SYNC}database"])
    return {**case, "tables": json.loads(json.dumps(found).replace(str(root), case["root"]))}


def main(labels: list[str]) -> None:
    """Make the named lines, or all; then write the file."""
    cases = [json.loads(line) for line in ENTRIES.read_text("utf-8").splitlines()]
    unknown = set(labels) - {case["label"] for case in cases}
    if unknown:
        sys.exit(f"{ENTRIES.name} has no line {', '.join(sorted(unknown))}")
    wanted = [case for case in cases if not labels or case["label"] in labels]
    made: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, serve_hive(Path(folder)) as metastore:
        spark = spark_support.start(Path(folder), SESSION)
        with HiveCatalog(thrift.Metastores(thrift.addresses(metastore, "metastore"))) as catalog:
            for case in wanted:
                made.append(make(spark, metastore, catalog, case, Path(folder)))
                if made[-1] != case:
                    print(f"{case['label']} differs: {json.dumps(made[-1]['tables'], sort_keys=True)}", flush=True)
        spark.stop()
    same = sum(new == old for new, old in zip(made, wanted, strict=True))
    print(f"{same} of {len(made)} lines are as they were")
    if not labels:
        lines = (json.dumps(case, sort_keys=True, ensure_ascii=False) for case in made)
        ENTRIES.write_text("".join(f"{line}\n" for line in lines), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
