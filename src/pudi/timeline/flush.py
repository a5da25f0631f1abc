"""List the files that a completed instant relies on and that must be flushed before it."""

from __future__ import annotations

from pudi.format import CommitMetadata


def written_files(content: bytes | CommitMetadata) -> list[str]:
    """Paths of the files that a commit says it wrote.

    Other actions name none here: few as they write, they make it safe as they do.

    Args:
        content: what the completed instant's file is going to say.
    """
    if not isinstance(content, CommitMetadata):
        return []
    written: dict[str, None] = {}
    for stats in content.partition_to_write_stats.values():
        for stat in stats:
            if stat.path:
                written[stat.path] = None
            written |= dict.fromkeys(stat.cdc_stats or ())
    return list(written)
