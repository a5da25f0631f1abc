"""The local engine: threads on Arrow, no JVM."""

from pudi.engine.local.engine import LocalEngine
from pudi.engine.local.reader import read_batches

__all__ = ["LocalEngine", "read_batches"]
