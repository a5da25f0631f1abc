"""Sequence numbers, as Hudi spells them."""

from __future__ import annotations

import pytest

from pudi.task import append


@pytest.mark.parametrize(
    ("first", "count"), [(0, 0), (0, 1), (0, 1_101), (7, 5), (995, 10), (99_998, 4), (9_999_999, 3), (2**31 - 2, 5)]
)
def test_each_record_has_the_next_number(first: int, count: int) -> None:
    texts = append.sequence_numbers("20260101000000000", 12, first, count)
    texts.validate(full=True)
    assert texts.to_pylist() == [f"20260101000000000_12_{n}" for n in range(first, first + count)]


def test_many_records_are_told_in_several_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append, "_MOST_BYTES", 400)
    texts = append.sequence_numbers("20260101000000000", 0, 90, 50)
    assert texts.num_chunks > 2
    assert texts.to_pylist() == [f"20260101000000000_0_{n}" for n in range(90, 140)]
