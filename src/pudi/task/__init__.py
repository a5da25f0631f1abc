"""The work on one file group: functions with Arrow data in and statistics out, and the protocol of engines."""

from pudi.task.engine import Engine, FileJob, InputSpec, JobRunner, KeyedInput, Tagged
from pudi.task.read import SliceReader
from pudi.task.tag import KeyLookup, KeySearch, key_finder
from pudi.task.write import FileResult, write_file

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
    "key_finder",
    "write_file",
]
