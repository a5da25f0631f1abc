"""Contracts as tests, and a storage that fails.

For pudi's own tests, and for authors of storages, locks, mergers and catalogs. Needs pytest.
"""

from pudi.testing.catalogs import CatalogTests, PlainCatalogTests
from pudi.testing.faults import FaultMode, FaultStorage, Outcome, PowerStorage, SimulatedCrash
from pudi.testing.index_kinds import IndexKindTests
from pudi.testing.locks import LockTests
from pudi.testing.mergers import MergerTests
from pudi.testing.race import race
from pudi.testing.simulation import InlineExecutor, Simulation, TimerClock
from pudi.testing.storages import StorageTests

__all__ = [
    "CatalogTests",
    "FaultMode",
    "FaultStorage",
    "IndexKindTests",
    "InlineExecutor",
    "LockTests",
    "MergerTests",
    "Outcome",
    "PlainCatalogTests",
    "PowerStorage",
    "SimulatedCrash",
    "Simulation",
    "StorageTests",
    "TimerClock",
    "race",
]
