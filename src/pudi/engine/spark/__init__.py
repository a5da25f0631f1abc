"""The Spark engine: public DataFrame API only, classic and Connect; data in, files and statistics out."""

from pudi.engine.spark.engine import SparkEngine
from pudi.engine.spark.reader import read_frame
from pudi.engine.spark.session import is_spark_frame, require_spark

__all__ = ["SparkEngine", "is_spark_frame", "read_frame", "require_spark"]
