"""The verb of a `Table` that changes its version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pudi.config.table_options import NEWEST_VERSION
from pudi.table.base import VerbGroup
from pudi.table.verbs import engine_of

if TYPE_CHECKING:
    from pudi.upgrade.upgrade_intent import Upgrade


class VersionVerbs(VerbGroup):
    """Verb of `Table` about versions."""

    def upgrade(
        self,
        version: int = NEWEST_VERSION,
        *,
        dry_run: bool = False,
        accept_loss: bool = False,
        spark: Any = None,
        options: Mapping[str, str] | None = None,
    ) -> Upgrade:
        """Bring the table to another version, upwards or downwards; records stay the same.

        Dead writes are rolled back, pending plans run, and log files compacted. Then the timeline, the archived one
        too, is written as the version has it, and one change of the properties makes that the table's. Readers go on
        with the old version until then, and open the table again afterwards. Writers must not run meanwhile; those of
        pudi are refused. If the process dies, the next call completes the upgrade.

        Args:
            version: 6, 8 or 9.
            dry_run: say what would be done, and what would be lost, and change nothing.
            accept_loss: go on although the version can't keep all: indexes that it doesn't have, and in a merge-on-read
                table that goes back to version 6 all states before now. Without it, such an upgrade is refused.
            spark: a session to run on; None for this machine.
            options: this call's options, over those of the `Table`.

        Returns:
            The steps, and what was lost.

        Raises:
            InvalidArgumentError: there's no such version, something would be lost, or another upgrade is pending.
            NotSupportedError: that version can't say what the table does, or this release can't write the table.
            BlockedError: another process is writing.
            CorruptError: an instant or the archive can't be read; nothing was changed.
        """
        meta, resolved = self._for_call(options)
        return self._opened.upgrade(
            meta, engine_of(None, spark), resolved, version, dry_run=dry_run, accept_loss=accept_loss
        )
