"""Readers do without a metadata table that a crash left half made, and warn of it: no test here is about that."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of this folder be warned."""
    for item in items:
        if item.nodeid.startswith("tests/faults/"):
            item.add_marker(pytest.mark.filterwarnings("ignore::pudi.metadata.MetadataWarning"))
