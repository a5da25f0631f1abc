"""What Spark users reach for first: a writer for a Hudi job's option map, one for streams, and a format for reading."""

from pudi.engine.spark.session import require_spark
from pudi.spark.source import register
from pudi.spark.stream import batch_writer
from pudi.spark.writer import FrameWriter, write

__all__ = ["FrameWriter", "batch_writer", "register", "require_spark", "write"]
