"""Offer what Spark users need first: a writer for a Hudi job's option map, one for streams, a format for reading."""

from pudi.engine.spark.session import require_spark
from pudi.spark.datasource import register
from pudi.spark.read_request import FrameReader, read
from pudi.spark.statements import sql
from pudi.spark.streaming.runner import ChangeStream, stream_changes
from pudi.spark.streaming.sink import batch_writer
from pudi.spark.writer import FrameWriter, StreamWriter, stream_writer, write

__all__ = [
    "ChangeStream",
    "FrameReader",
    "FrameWriter",
    "StreamWriter",
    "batch_writer",
    "read",
    "register",
    "require_spark",
    "sql",
    "stream_changes",
    "stream_writer",
    "write",
]
