"""Every option there is, by the sections of the option page."""

from __future__ import annotations

from typing import Any

from pudi.config.compaction_options import CompactionOptions
from pudi.config.job_options import JOB_OPTIONS
from pudi.config.lock_settings import LockSettings
from pudi.config.memory import MergeMemory
from pudi.config.metadata_options import MetadataOptions
from pudi.config.option import Option
from pudi.config.read_options import READ_OPTIONS
from pudi.config.table_options import TABLE_OPTIONS
from pudi.config.write_options import WriteOptions

GROUPS: dict[str, tuple[Option[Any], ...]] = {
    "Of a table": TABLE_OPTIONS,
    "Of a writer": (*WriteOptions.declared, *LockSettings.declared),
    "Of the metadata table and indexes": MetadataOptions.declared,
    "Of a compaction": CompactionOptions.declared,
    "Of readers and compactions": MergeMemory.declared,
    "Of a reader": READ_OPTIONS,
    "Also known from Hudi jobs": JOB_OPTIONS,
}

ALL_OPTIONS: tuple[Option[Any], ...] = tuple(option for group in GROUPS.values() for option in group)
