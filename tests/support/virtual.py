"""Tables without meta fields, of the suites' layouts: made by pudi or by Hudi, and compared without those fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pudi
from support.engines import Engine
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import META_FIELDS, Row, assert_same
from support.trips import SCHEMA

VIRTUAL = {"hoodie.populate.meta.fields": "false"}


def made_virtual(
    engine: Engine, path: Path, layout: Layout, options: Mapping[str, str] | None = None, **more: str
) -> PudiTable:
    """Make such a table; `more` are options of its creation."""
    arguments = layout.create_arguments()
    pudi.create(str(path), SCHEMA, **arguments | {"options": {**arguments["options"], **VIRTUAL, **more}})
    return PudiTable(engine, path, options or {})


def assert_same_data(actual: Iterable[Row], expected: Iterable[Row], about: str = "") -> None:
    """Compare rows without their meta fields."""
    assert_same(actual, expected, META_FIELDS, about)
