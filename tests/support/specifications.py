"""The modules of `spec/`, which isn't a package."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[2] / "spec"


@cache
def specification(name: str) -> Any:
    """Return a module of `spec/`, such as `commits`."""
    found = importlib.util.spec_from_file_location(f"specification_of_{name}", _FOLDER / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = sys.modules[found.name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module
