"""Report what a batch of an ingestion has done, for people and monitors."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pudi.client import CommitResult


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Report of a batch.

    Attributes:
        at: when it began, ISO text in UTC.
        origin: where its records come from.
        bad: number of bad records, which are in the error table.
        checkpoint: where the next one goes on.
        result: its commit; None if no records were left to write.
        deleted: the commit before that, which deleted what the source deleted; None if there was nothing.
        read_s: seconds for reading and transforming.
        write_s: seconds for writing.
        more: whether more is waiting.
    """

    at: str
    origin: str
    bad: int
    checkpoint: str
    result: CommitResult | None
    read_s: float
    write_s: float
    more: bool
    deleted: CommitResult | None = None

    def to_json(self) -> str:
        """Return it as a line of JSON."""
        done, gone = self.result, self.deleted
        last = done or gone
        counts = {
            "instant": last and last.instant,
            "inserted": done.records_inserted if done else 0,
            "updated": done.records_updated if done else 0,
            "deleted": sum(each.records_deleted for each in (done, gone) if each),
            "bytes": done.bytes_written if done else 0,
            "failed_services": {k: v for each in (gone, done) if each for k, v in each.failed_services.items()},
        }
        own = {name: getattr(self, name) for name in ("at", "origin", "bad", "checkpoint", "more")}
        times = {"read_s": round(self.read_s, 3), "write_s": round(self.write_s, 3)}
        return json.dumps({**own, **counts, **times}, ensure_ascii=False)
