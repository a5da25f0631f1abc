"""A custom merge rule: the highest bid wins, in whatever order bids arrive."""

import tempfile

import pyarrow as pa
import pyarrow.compute as pc

import pudi


class KeepHighestBid(pudi.RecordMerger):
    """Keeps the version with the higher bid; a withdrawn lot is gone until it's offered again."""

    strategy_id = "6f0f6d2e-5a53-4c1e-9a43-0c7f2a6f8e11"  # made once, by uuid.uuid4(), and kept: tables store it

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: pudi.MergeContext) -> pa.RecordBatch:
        """The batches are aligned: row n of both is the same lot."""
        known = pc.invert(pc.or_(older["_hoodie_is_deleted"], newer["_hoodie_is_deleted"]))
        stays = pc.and_(known, pc.fill_null(pc.greater(older["bid"], newer["bid"]), False))
        columns = [pc.if_else(stays, old, new) for old, new in zip(older.columns, newer.columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=older.schema)


pudi.register_merger(KeepHighestBid())

schema = pa.schema({"lot": pa.string(), "bidder": pa.string(), "bid": pa.int64()})
options = {"hoodie.record.merge.strategy.id": KeepHighestBid.strategy_id}
auction = pudi.create(tempfile.mkdtemp() + "/auction", schema, record_key="lot", options=options)

auction.upsert(pa.table([["vase", "clock", "vase"], ["ann", "bob", "eve"], [30, 80, 45]], schema=schema))
auction.upsert(pa.table([["vase", "clock"], ["bob", "ann"], [40, 95]], schema=schema))

for lot in auction.scan(meta_fields=False).to_arrow().sort_by("lot").to_pylist():
    print(lot)
