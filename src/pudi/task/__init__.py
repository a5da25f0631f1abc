"""How to do one piece: functions on one file slice, Arrow in, statistics out, and the protocol of engines."""

from pudi.task.engine import Engine, InputSpec, KeyedInput, Tagged
from pudi.task.read import SliceReader
from pudi.task.tag import KeyLookup, find_keys, key_span
from pudi.task.write import FileResult, write_file

__all__ = [
    "Engine",
    "FileResult",
    "InputSpec",
    "KeyLookup",
    "KeyedInput",
    "SliceReader",
    "Tagged",
    "find_keys",
    "key_span",
    "write_file",
]
