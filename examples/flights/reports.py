"""The pipeline's own rule for merge-on-read tables: of two reports on a flight the one with the later event time."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import pudi


class LatestReport(pudi.RecordMerger):
    """What `hoodie.record.merge.mode=EVENT_TIME_ORDERING` does, written out; a delete stands against what is older."""

    strategy_id = "0c1b6a52-3c0e-4f0b-9d57-5a1d9b7a2f64"

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: pudi.MergeContext) -> pa.RecordBatch:
        """Row n of both is the same flight."""
        known = pc.invert(pc.or_(older["_hoodie_is_deleted"], newer["_hoodie_is_deleted"]))
        late = pc.and_(known, pc.fill_null(pc.greater(older["event_time"], newer["event_time"]), False))
        columns = [pc.if_else(late, old, new) for old, new in zip(older.columns, newer.columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=older.schema)
