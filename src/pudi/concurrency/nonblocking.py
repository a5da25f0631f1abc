"""Conflict rules of non-blocking writes. They address buckets only, so few commits conflict.

Source: HoodieWriteConfig.needResolveWriteConflict. Hudi checks nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass

from pudi.concurrency.touched import Group, KeyScope, groups_of, owned, replaced_groups
from pudi.format import CommitMetadata
from pudi.timeline import Instant

READS = "pudi.reads"
"""Extra metadata of a commit that was computed from the table's records, or depends on some of them staying."""


@dataclass(frozen=True, slots=True)
class NonBlocking:
    """A write that adds log files to buckets while other writers add theirs to the same buckets.

    Attributes:
        unfound: buckets in which deletes found no file group, by partition path and name.
    """

    unfound: frozenset[Group] = frozenset()

    def contradiction(
        self, own: Instant, written: CommitMetadata, other: Instant, theirs: CommitMetadata
    ) -> str | None:
        """Return what a write that completed meanwhile did which ours had to know; None for nothing.

        Readers merge log files of a slice in the order of their requested times. So a write that was computed from
        what it read, and was requested after ours, would overtake ours without having read it.

        Args:
            own: our instant.
            written: what we wrote.
            other: the other instant.
            theirs: what it wrote and replaced.
        """
        mine, groups = groups_of(written), groups_of(theirs)
        gone = mine & replaced_groups(theirs)
        if gone:
            return f"replaced file group {min(gone)[1]} of partition {min(gone)[0]!r}"
        elsewhere = owned(mine, KeyScope.BUCKET) & owned(groups - mine, KeyScope.BUCKET)
        if elsewhere:
            return f"has another file group for bucket {min(elsewhere)[1]} of partition {min(elsewhere)[0]!r}"
        begun = self.unfound & owned(groups, KeyScope.BUCKET)
        if begun:
            return (
                f"began bucket {min(begun)[1]} of partition {min(begun)[0]!r}, where this write had nothing to delete"
            )
        both = mine & groups if READS in theirs.extra_metadata and other.requested > own.requested else None
        if both:
            return f"changed records that it had read in file group {min(both)[1]} of partition {min(both)[0]!r}"
        return None
