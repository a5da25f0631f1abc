"""Ids of new file groups: none reads as that of a bucket."""

from __future__ import annotations

import random
import uuid

from pudi.context import Context
from pudi.format import bucket_of_file_id


def test_a_new_id_never_looks_like_a_bucket() -> None:
    """The first UUID of this seed begins with eight digits; one in forty does."""
    seed = 3
    by_chance = str(uuid.UUID(int=random.Random(seed).getrandbits(128), version=4))
    assert bucket_of_file_id(by_chance) is not None
    context = Context(seed=seed)
    assert all(bucket_of_file_id(context.new_id()) is None for _ in range(1000))
