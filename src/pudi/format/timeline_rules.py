"""Differences between the two timeline layouts that readers and writers must know (TimelineLayoutVersion).

The encoding of instants and archives differs too: `pudi.format` and `pudi.timeline` know that by the layout itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from pudi.format.layout import ARCHIVE_FOLDER, HISTORY_FOLDER, HOODIE_DIR
from pudi.format.names import Layout


@dataclass(frozen=True, slots=True)
class TimelineRules:
    """The rules of one layout: 1 below table version 8, 2 from there on.

    Attributes:
        layout: the layout.
    """

    layout: Layout

    @property
    def logs_name_their_commit(self) -> bool:
        """Whether the name of a log file contains the instant that wrote it.

        A log file then belongs to the slice that is the latest when the instant completes, is written by it alone, and
        is deleted when the instant is rolled back. In layout 1 the name holds the instant of the slice's base, several
        instants may write to one file, and a rollback adds a command block.
        """
        return self.layout == 2

    @property
    def logs_name_their_slice(self) -> bool:
        """Whether the name of a log file contains the instant of its slice's base file instead."""
        return not self.logs_name_their_commit

    @property
    def has_completion_times(self) -> bool:
        """Whether instants have completion times; in layout 1 only the requested time is reliable."""
        return self.layout == 2

    @property
    def names_repeat(self) -> bool:
        """Whether instants of a recreated metadata table may have the names of earlier ones."""
        return not self.has_completion_times

    @property
    def services_have_suffixes(self) -> bool:
        """Whether a service of a metadata table takes the newest deltacommit's time with a suffix of digits."""
        return self.layout == 1

    @property
    def has_record_positions(self) -> bool:
        """Whether log blocks may contain record positions and partial records."""
        return self.layout == 2

    @property
    def default_history(self) -> str:
        """Default of the folder of archived instants, relative to the timeline's."""
        return ARCHIVE_FOLDER if self.layout == 1 else HISTORY_FOLDER

    def folder(self, timeline_path: str) -> str:
        """Return the folder of the active timeline, relative to the table's root.

        Args:
            timeline_path: value of `hoodie.timeline.path`.
        """
        return HOODIE_DIR if self.layout == 1 else f"{HOODIE_DIR}/{timeline_path}"

    def history(self, timeline_path: str, archive_path: str, history_path: str) -> str:
        """Return the folder of archived instants, relative to the table's root.

        Args:
            timeline_path: value of `hoodie.timeline.path`.
            archive_path: value of `hoodie.archivelog.folder`, which layout 1 uses; empty for the timeline's own folder.
            history_path: value of `hoodie.timeline.history.path`.
        """
        below = archive_path if self.layout == 1 else history_path
        return f"{self.folder(timeline_path)}/{below}" if below else self.folder(timeline_path)


_RULES = {layout: TimelineRules(layout) for layout in (1, 2)}


def rules_of(layout: Layout) -> TimelineRules:
    """Return the rules of a layout."""
    return _RULES[layout]
