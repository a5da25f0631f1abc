"""Every option of Hudi is known by name: supported, without effect here, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pudi.config import find_option, resolve
from pudi.errors import NotSupportedError

KEYS = Path(__file__).parents[2] / "golden" / "option_keys.txt"
"""The keys in the configuration classes of Hudi 1.2.0's bundle for Spark."""


def test_all_keys_of_hudi_are_known() -> None:
    keys = KEYS.read_text("utf-8").split()
    assert len(keys) > 600
    assert [key for key in keys if find_option(key) is None] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.storage.class", "a.B"),
        ("hoodie.metaserver.enabled", "true"),
        ("hoodie.write.rolling.metadata.keys", "a"),
        ("hoodie.avro.schema", "{}"),
        ("hoodie.datasource.write.operation", "alter_schema"),
    ],
)
def test_what_pudi_lacks_is_refused(key: str, value: str) -> None:
    with pytest.raises(NotSupportedError, match=key):
        resolve({key: value})
