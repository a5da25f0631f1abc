"""Hudi's own tool that registers tables in a Hive Metastore."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

SYNC = "hoodie.datasource.hive_sync."


def sync_by_hudi(spark: Any, metastore: str, path: Path, options: Mapping[str, str]) -> None:
    """Register a table by HiveSyncTool, in a session that holds Hudi's bundle."""
    settings = {
        f"{SYNC}mode": "hms",
        f"{SYNC}metastore.uris": metastore,
        "hoodie.datasource.meta.sync.base.path": f"file:{path}",
        **options,
    }
    jvm = spark._jvm
    properties = jvm.java.util.Properties()
    for key, value in settings.items():
        properties.setProperty(key, value)
    configuration = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    configuration.set("hive.metastore.uris", metastore)
    tool = jvm.org.apache.hudi.hive.HiveSyncTool(properties, configuration)
    try:
        tool.syncHoodieTable()
    finally:
        tool.close()
