"""The pipeline's merge rule for merge-on-read tables: of two reports on a flight the later event time wins."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import pudi


class LatestReport(pudi.RecordMerger):
    """Merges as `hoodie.record.merge.mode=EVENT_TIME_ORDERING` does; a delete wins over older versions."""

    strategy_id = "0c1b6a52-3c0e-4f0b-9d57-5a1d9b7a2f64"

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: pudi.MergeContext) -> pa.RecordBatch:
        """Row n of both batches is the same flight."""
        known = pc.invert(pc.or_(older["_hoodie_is_deleted"], newer["_hoodie_is_deleted"]))
        late = pc.and_(known, pc.fill_null(pc.greater(older["event_time"], newer["event_time"]), False))
        columns = [pc.if_else(late, old, new) for old, new in zip(older.columns, newer.columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=older.schema)
