"""File groups and their slices: the view of them at an instant, the files of one slice, and markers."""

from pudi.filegroup.basefile import BaseFileReader, BaseFileWriter
from pudi.filegroup.basefile_encode import ParquetOptions, encode_parquet, has_above_ffff
from pudi.filegroup.clean_history import has_overtaken
from pudi.filegroup.committed_files import stated_base_sizes, unmarked_files, unmarked_logs
from pudi.filegroup.committed_logs import CommittedLogs, stated_sizes
from pudi.filegroup.formats import (
    AnyBaseFile,
    FileOptions,
    PartitionedStorage,
    PathColumnReader,
    PathColumns,
    VirtualKeyReader,
    open_base_file,
    partitioned,
    path_columns,
    virtual_keys,
)
from pudi.filegroup.hfilebase import HFILE_EXTENSION, HFileBaseReader, HFileOptions
from pudi.filegroup.listing import FileListing, StorageListing
from pudi.filegroup.log_scan import (
    LogScope,
    bases_under,
    read_all_blocks,
    read_blocks,
    read_content,
    read_log_blocks,
    visible_blocks,
)
from pudi.filegroup.markers import Markers
from pudi.filegroup.orcfile import ORC_CODECS, OrcFileReader, OrcOptions
from pudi.filegroup.pending_plans import (
    busy_groups,
    closed_groups,
    clustered_groups,
    clustering_plan,
    compacted_groups,
    compacting_since,
    compaction_plan,
)
from pudi.filegroup.slice_history import FileGroup, SliceFiles
from pudi.filegroup.slices import BaseFile, FileSlice, LogFile, slices_by_partition
from pudi.filegroup.view import FileSystemView, Replacements, ViewOptions

__all__ = [
    "HFILE_EXTENSION",
    "ORC_CODECS",
    "AnyBaseFile",
    "BaseFile",
    "BaseFileReader",
    "BaseFileWriter",
    "CommittedLogs",
    "FileGroup",
    "FileListing",
    "FileOptions",
    "FileSlice",
    "FileSystemView",
    "HFileBaseReader",
    "HFileOptions",
    "LogFile",
    "LogScope",
    "Markers",
    "OrcFileReader",
    "OrcOptions",
    "ParquetOptions",
    "PartitionedStorage",
    "PathColumnReader",
    "PathColumns",
    "Replacements",
    "SliceFiles",
    "StorageListing",
    "ViewOptions",
    "VirtualKeyReader",
    "bases_under",
    "busy_groups",
    "closed_groups",
    "clustered_groups",
    "clustering_plan",
    "compacted_groups",
    "compacting_since",
    "compaction_plan",
    "encode_parquet",
    "has_above_ffff",
    "has_overtaken",
    "open_base_file",
    "partitioned",
    "path_columns",
    "read_all_blocks",
    "read_blocks",
    "read_content",
    "read_log_blocks",
    "slices_by_partition",
    "stated_base_sizes",
    "stated_sizes",
    "unmarked_files",
    "unmarked_logs",
    "virtual_keys",
    "visible_blocks",
]
