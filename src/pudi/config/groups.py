"""All options, by section of the option page."""

from __future__ import annotations

from typing import Any

from pudi.config.archive_options import ArchiveOptions
from pudi.config.clean_options import CleanOptions
from pudi.config.clustering_options import ClusteringOptions
from pudi.config.compaction_options import CompactionOptions
from pudi.config.hook_options import CallbackOptions, ValidatorOptions
from pudi.config.job_options import FLINK_OPTIONS, JOB_OPTIONS
from pudi.config.lock_settings import LockSettings
from pudi.config.memory import MergeMemory
from pudi.config.metadata_options import MetadataOptions
from pudi.config.metrics_options import MetricsOptions
from pudi.config.option import Option
from pudi.config.polaris_options import PolarisOptions
from pudi.config.read_options import READ_OPTIONS
from pudi.config.sql_options import SqlOptions
from pudi.config.sync_options import SyncOptions
from pudi.config.table_options import TABLE_OPTIONS
from pudi.config.time_options import TimeOptions
from pudi.config.ttl_options import TtlOptions
from pudi.config.write_options import WriteOptions

GROUPS: dict[str, tuple[Option[Any], ...]] = {
    "Table": TABLE_OPTIONS,
    "Writer": (*WriteOptions.declared, *LockSettings.declared, *TimeOptions.declared),
    "Metadata table and indexes": MetadataOptions.declared,
    "Compaction": CompactionOptions.declared,
    "Clustering": ClusteringOptions.declared,
    "Cleaning": CleanOptions.declared,
    "Archiving": ArchiveOptions.declared,
    "Partition TTL": TtlOptions.declared,
    "Commit callbacks": CallbackOptions.declared,
    "Pre-commit validators": ValidatorOptions.declared,
    "Metrics": MetricsOptions.declared,
    "Catalogs": (*SyncOptions.declared, *PolarisOptions.declared),
    "Memory for merging": MergeMemory.declared,
    "SQL": SqlOptions.declared,
    "Reader": READ_OPTIONS,
    "Other options of Hudi jobs": JOB_OPTIONS,
    "Options of Hudi's Flink jobs": FLINK_OPTIONS,
}

ALL_OPTIONS: tuple[Option[Any], ...] = tuple(option for group in GROUPS.values() for option in group)
