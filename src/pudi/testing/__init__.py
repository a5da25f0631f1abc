"""Contracts as tests, and a storage that fails: for pudi's own tests and for whoever writes a storage or a lock.

Needs pytest.
"""

from pudi.testing.faults import FaultMode, FaultStorage, SimulatedCrash
from pudi.testing.locks import LockTests
from pudi.testing.race import race
from pudi.testing.storages import StorageTests

__all__ = ["FaultMode", "FaultStorage", "LockTests", "SimulatedCrash", "StorageTests", "race"]
