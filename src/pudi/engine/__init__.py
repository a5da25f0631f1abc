"""The engines: threads on one machine, or Spark."""

from pudi.engine.kinds import is_spark_frame

__all__ = ["is_spark_frame"]
