"""What tasks got is compared with what was counted; neither lost nor doubled records go unseen."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pudi.engine.spark.engine import _Answer, _check_complete
from pudi.engine.spark.file_tasks import Fingerprint
from pudi.engine.spark.records import Group
from pudi.errors import UnavailableError


def _of(*hashes: int) -> Fingerprint:
    return Fingerprint.of(pa.chunked_array([pa.array(hashes, pa.int64())]))


@pytest.mark.parametrize(
    "received",
    [(7, -8, 9), (7, -8, 9, 9, 9), (7, 7, 7, 7), (9, 9, -8, -8), (7, 7, -8, 8)],
    ids=["fewer", "more", "one for two pairs", "another pair", "one changed"],
)
def test_other_records_than_were_counted(received: tuple[int, ...]) -> None:
    counted = (7, 7, -8, -8)
    group = Group(len(counted), _of(*counted))
    _check_complete([("p", group)], ["p"], [_Answer(0, 4, _of(-8, 7, 7, -8), ())], "t")
    with pytest.raises(UnavailableError, match="the tasks got"):
        _check_complete([("p", group)], ["p"], [_Answer(0, len(received), _of(*received), ())], "t")


def test_tasks_of_one_partition_add_up() -> None:
    group = Group(3, _of(1, 2, -3))
    _check_complete([("p", group)], ["p", "p"], [_Answer(0, 1, _of(-3), ()), _Answer(1, 2, _of(2, 1), ())], "t")
