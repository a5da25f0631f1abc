"""The modules of `spec/`, which isn't a package."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = str(Path(__file__).parents[2] / "spec")


@cache
def specification(name: str) -> Any:
    """Return a module of `spec/`, such as `commits`."""
    sys.path.insert(0, _FOLDER)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(_FOLDER)
