"""What real Hudi says of a metadata table: its partitions, read by Hudi, held to its reading of folders and files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.metadata import metadata_partitions
from support.record_index import _file_id


class HudiReader:
    """Hudi's classes on one table: what they say by its metadata table, and by its folders and files alone.

    The bundle's procedure `validate_metadata_table_files` is of no use here: in Hudi 1.2.0 both of its sides read the
    metadata table. So this does with Hudi's classes what HoodieMetadataTableValidator does, which only the bundle of
    Hudi's utilities has: each side's listing and file slices, and of the latest base files column ranges and bloom
    filters.
    """

    def __init__(self, spark: Any, path: Path) -> None:
        self.path = path
        self.hudi, self.util = spark._jvm.org.apache.hudi, spark._jvm.java.util
        conf = self.hudi.storage.hadoop.HadoopStorageConfiguration(spark._jsc.hadoopConfiguration())
        self.storage = self.hudi.storage.HoodieStorageUtils.getStorage(str(path), conf)
        context = self.hudi.common.engine.HoodieLocalEngineContext(conf)
        config = self.hudi.common.config.HoodieMetadataConfig.newBuilder().enable(True).build()
        self.metadata = self.hudi.metadata.HoodieBackedTableMetadata(context, self.storage, config, str(path))
        self.folders = self.hudi.metadata.FileSystemBackedTableMetadata(context, self.storage, str(path))
        self.table = self.hudi.common.table.HoodieTableMetaClient.builder().setConf(conf).setBasePath(str(path)).build()

    def listed(self, side: Any) -> dict[str, dict[str, int]]:
        """By partition the files and their sizes, partitions without files aside."""
        found = {}
        for partition in side.getAllPartitionPaths():
            files = side.getAllFilesInPartition(self.hudi.storage.StoragePath(str(self.path / partition)))
            found[str(partition)] = {str(file.getPath().getName()): int(file.getLength()) for file in files}
        return {partition: files for partition, files in found.items() if files}

    def slices(self, side: Any, partitions: Iterable[str]) -> list[tuple[str, str, list[str]]]:
        """The latest file slices: partition, file group, and names of the base file and of the log files in order."""
        view = self._view(side)
        return sorted(
            (name, str(each.getFileId()), _files(each))
            for name in partitions
            for each in view.getLatestFileSlices(name).toArray()
        )

    def base_files(self, partitions: Iterable[str]) -> list[tuple[str, str]]:
        """Partition and name of the latest base files, by the folders."""
        view = self._view(self.folders)
        return [(p, str(file.getFileName())) for p in partitions for file in view.getLatestBaseFiles(p).toArray()]

    def _view(self, side: Any) -> Any:
        timeline = self.table.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        return self.hudi.common.table.view.HoodieTableFileSystemView(side, self.table, timeline)

    def pairs(self, files: Iterable[tuple[str, str]]) -> Any:
        """A Java list of Hudi's pairs."""
        made = self.util.ArrayList()
        for partition, name in files:
            made.add(self.hudi.common.util.collection.Pair.of(partition, name))
        return made

    def ranges(self, files: list[tuple[str, str]], column: str) -> dict[str, tuple[Any, ...]]:
        """By file the least and greatest value, nulls and values of a column, by the metadata table."""
        make = self.hudi.stats.HoodieColumnRangeMetadata.fromColumnStats
        stats = self.metadata.getColumnStats(self.pairs(files), column)
        return dict(_range(make(stats[pair])) for pair in stats)

    def footer_ranges(self, files: list[tuple[str, str]], columns: list[str]) -> dict[str, dict[str, tuple[Any, ...]]]:
        """By column the same, read from the files' footers."""
        names = self.util.ArrayList()
        for column in columns:
            names.add(column)
        versions = self.hudi.metadata.HoodieTableMetadataUtil
        version = versions.existingIndexVersionOrDefault("column_stats", self.table)
        found: dict[str, dict[str, tuple[Any, ...]]] = {column: {} for column in columns}
        for partition, name in files:
            path = self.hudi.storage.StoragePath(str(self.path / partition / name))
            read = self.hudi.common.util.ParquetUtils().readColumnStatsFromMetadata(self.storage, path, names, version)
            for each in read:
                found[str(each.getColumnName())].update([_range(each)])
        return found

    def blooms(self, files: list[tuple[str, str]]) -> tuple[dict[str, str], dict[str, str]]:
        """The bloom filters of base files that have one, by the metadata table and by the footers."""
        in_footers = {}
        for partition, name in files:
            path = self.hudi.storage.StoragePath(str(self.path / partition / name))
            bloom = self.hudi.common.util.ParquetUtils().readBloomFilterFromMetadata(self.storage, path)
            if bloom is not None:
                in_footers[name] = str(bloom.serializeToString())
        asked = [file for file in files if file[1] in in_footers]
        read = self.metadata.getBloomFilters(self.pairs(asked)) if asked else {}
        return {str(pair.getRight()): str(read[pair].serializeToString()) for pair in read}, in_footers


def _files(file_slice: Any) -> list[str]:
    base = [file_slice.getBaseFile().get()] if file_slice.getBaseFile().isPresent() else []
    return [str(file.getFileName()) for file in [*base, *file_slice.getLogFiles().toArray()]]


def _range(column: Any) -> tuple[str, tuple[Any, ...]]:
    bounds = [column.getMinValue(), column.getMaxValue()]
    values = tuple(str(bound) if hasattr(bound, "toString") else bound for bound in bounds)
    return str(column.getFilePath()), (*values, int(column.getNullCount()), int(column.getValueCount()))


def assert_hudi_finds_no_difference(spark: Any, path: Path) -> None:
    """By Hudi's own reading its metadata table says of files, ranges and bloom filters what folders and footers say."""
    reader = HudiReader(spark, path)
    listed = reader.listed(reader.folders)
    assert listed, "there is nothing to compare"
    assert reader.listed(reader.metadata) == listed
    assert reader.slices(reader.metadata, listed) == reader.slices(reader.folders, listed)
    ready, files = metadata_partitions(path), reader.base_files(listed)
    if "column_stats" in ready and files:
        content = json.loads((path / ".hoodie" / ".index_defs" / "index.json").read_text())
        columns = content["indexDefinitions"]["column_stats"]["sourceFields"]
        footers = reader.footer_ranges(files, columns)
        assert {column: reader.ranges(files, column) for column in columns} == footers
    if "bloom_filters" in ready:
        by_metadata, by_footers = reader.blooms(files)
        assert by_metadata == by_footers


def assert_hudi_reads_the_record_index(spark: Any, path: Path) -> None:
    """Each key is where Hudi's own reading of the record index says, by Hudi's own scan of the table, and no other is.

    It's what HoodieMetadataTableValidator calls the content of the record index. A key has one place in the table, or
    one in each partition that it's in.
    """
    records = spark.read.format("hudi").load(f"{path}/.hoodie/metadata").where("type = 5")
    infos = [(row["key"], row["recordIndexMetadata"].asDict()) for row in records.collect()]
    by_index = sorted((key, info["partitionName"], _file_id(info)) for key, info in infos)
    table = spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(str(path))
    rows = table.select("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name").collect()
    assert by_index == sorted((key, partition, name.split("_")[0]) for key, partition, name in rows)


def files_read(frame: Any) -> int:
    """How many file slices Spark's scan of a frame read, by its own metric; the frame's rows are collected."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    leaves = plan.collectLeaves()
    assert leaves.size() == 1, plan.toString()
    return int(leaves.head().metrics().apply("numFiles").value())
