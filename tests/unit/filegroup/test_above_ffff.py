"""Texts whose order differs between UTF-8 and UTF-16."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pudi.filegroup import has_above_ffff


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([], False),
        (["", None, "a"], False),
        (["é", "\uffff", "漢"], False),
        (["a", "\U00010000", "b"], True),
        ([None, "x\U0010ffff"], True),
    ],
)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_characters_above_ffff_are_found(texts: list[str | None], found: bool, kind: pa.DataType) -> None:
    assert has_above_ffff(pa.array(texts, kind)) == found
    assert has_above_ffff(pa.chunked_array([texts, ["z"]], kind)) == found


def test_characters_outside_of_a_slice_do_not_count() -> None:
    texts = pa.array(["\U00010000", "a", "b", "\U00010000"])
    assert not has_above_ffff(texts.slice(1, 2))
    assert has_above_ffff(texts.slice(1, 3))
