"""Properties under the names that earlier releases know, which tables of earlier versions state beside the new ones.

Hudi 1.2 renamed the ordering fields for all versions, and states a key generator by its type alone. Releases that know
version 6 (0.14, 0.15) or 8 (1.0) look for the old names only: without them they merge as if there were no ordering.

Source: HoodieTableConfig of 0.15.0 and 1.0.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from pudi.config import key_generators
from pudi.config.table_options import TableOptions

_VERSION = TableOptions.version.key
_ORDERING = TableOptions.ordering.key
_PRECOMBINE = TableOptions.ordering.aliases[0]
_GENERATOR, _GENERATOR_CLASS = TableOptions.key_generator.key, TableOptions.key_generator_class.key
_PRECOMBINED = frozenset({6, 8})
"""Versions whose first releases know the ordering fields as the precombine field."""
_BY_CLASS = frozenset({6})
"""Versions whose releases know key generators by class only."""


def missing_names(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that a table lacks for the releases of its version, by their old names; empty if none.

    Args:
        properties: all properties of a table, or of its metadata table.
    """
    version = int(properties.get(_VERSION, "9"))
    missing: dict[str, str] = {}
    if version in _PRECOMBINED and properties.get(_ORDERING):
        missing[_PRECOMBINE] = properties[_ORDERING]
    of_type = key_generators.class_of_type(properties.get(_GENERATOR, ""))
    if version in _BY_CLASS and of_type is not None:
        missing[_GENERATOR_CLASS] = of_type
    return {key: value for key, value in missing.items() if key not in properties}


def with_older_names(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with those that `missing_names` finds."""
    return {**properties, **missing_names(properties)}
