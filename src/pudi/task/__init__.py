"""The work on one file group: functions with Arrow data in and statistics out, and the protocol of engines.

It takes no lock and publishes nothing: plans come in, statistics go out. Begin with `engine` (the protocol) and `jobs`
(their results), then with the work itself:

- reads: `read`, `merged` (base file and log files), `log_versions`, `cdc_reader` (change data);
- writes: `write` (base files), `append` (log files), `rewrite` (copies what stays), `bulk`, `partition`,
  `change_where`, `import_files`, `cdc_log`;
- look-ups of keys: `key_search`, `global_index`;
- services: `compact`, `compact_logs`, `cluster`;
- entries of the metadata table: `metadata_files`, `file_stats`, `blooms`, `index_keys`, `index_entries`, `staged_keys`,
  `expression_values`;
- checks: `check_files`, `check_keys`, `find_records`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pudi.context.runtime import load_export

if TYPE_CHECKING:
    from pudi.task.engine import Engine, InputSpec, KeyedInput, Tagged
    from pudi.task.jobs import FileJob, FileResult, JobRunner
    from pudi.task.key_search import KeyLookup, KeySearch
    from pudi.task.read import SliceReader
    from pudi.task.write import write_file

__all__ = [
    "Engine",
    "FileJob",
    "FileResult",
    "InputSpec",
    "JobRunner",
    "KeyLookup",
    "KeySearch",
    "KeyedInput",
    "SliceReader",
    "Tagged",
    "write_file",
]

_SOURCES = {
    "Engine": "pudi.task.engine",
    "FileJob": "pudi.task.jobs",
    "FileResult": "pudi.task.jobs",
    "InputSpec": "pudi.task.engine",
    "JobRunner": "pudi.task.jobs",
    "KeyLookup": "pudi.task.key_search",
    "KeySearch": "pudi.task.key_search",
    "KeyedInput": "pudi.task.engine",
    "SliceReader": "pudi.task.read",
    "Tagged": "pudi.task.engine",
    "write_file": "pudi.task.write",
}
"""The module of each name: a Spark worker loads only what its tasks use."""


def __getattr__(name: str) -> Any:
    return load_export(__name__, _SOURCES, name)
