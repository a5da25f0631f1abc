"""Fingerprints of sets of records: hashes in, a value out that shows whether other records came in their place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pudi.engine.spark.columns import HASH

_LOW = (1 << 32) - 1

FINGERPRINT_SQL = (f"bit_xor({HASH})", f"sum({HASH} & {_LOW}L)")
"""Aggregates that give the parts of a `Fingerprint`."""


class Fingerprint(NamedTuple):
    """The compared facts of two record sets that must be equal.

    Attributes:
        xor: XOR of the records' hashes. A record that comes twice cancels itself out of it.
        total: sum of the lower halves of the hashes, which cannot overflow for two billion records.
    """

    xor: int = 0
    total: int = 0

    @classmethod
    def of(cls, hashes: pa.ChunkedArray) -> Fingerprint:
        """The fingerprint of some records."""
        if not len(hashes):
            return cls()
        values = hashes.to_numpy()
        return cls(int(np.bitwise_xor.reduce(values, dtype=np.int64)), int(np.sum(values & _LOW, dtype=np.int64)))

    def plus(self, other: Fingerprint) -> Fingerprint:
        """The fingerprint with other records too."""
        return Fingerprint(self.xor ^ other.xor, self.total + other.total)

    def minus(self, other: Fingerprint) -> Fingerprint:
        """The fingerprint without other records."""
        return Fingerprint(self.xor ^ other.xor, self.total - other.total)


NO_RECORDS = Fingerprint()
