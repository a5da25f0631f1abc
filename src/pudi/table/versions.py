"""The verb of a `Table` that changes its version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pudi.action import MetaClient
from pudi.config import Options
from pudi.config.resolve import without_table_options
from pudi.config.table_options import NEWEST_VERSION
from pudi.context.lazy import lazy_module
from pudi.table.verbs import engine_of

if TYPE_CHECKING:
    from pudi.action import upgrade as upgrade_action
    from pudi.action.upgrade_intent import Upgrade
else:
    upgrade_action = lazy_module("pudi.action.upgrade")


class Versions:
    """What `Table` inherits this verb from."""

    _options: dict[str, str]

    def _for_call(self, options: Mapping[str, str] | None) -> tuple[MetaClient, Options]:
        raise NotImplementedError

    def _reopen(self) -> None:
        raise NotImplementedError

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
        engine = engine_of(None, spark)
        done = upgrade_action.upgrade(meta, engine, resolved, version, dry_run=dry_run, accept_loss=accept_loss)
        if done.done:
            self._options = without_table_options(self._options)  # the version among them was that of before
            self._reopen()
        return done
