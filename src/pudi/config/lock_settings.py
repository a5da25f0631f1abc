"""The options of locks, with Hudi's keys and defaults (LockConfiguration, HoodieLockConfig, StorageBasedLockConfig)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pudi.config.option import Declare, OptionsView, Scope
from pudi.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pudi.config.resolve import Options

_option = Declare(Scope.WRITE)


class LockSettings(OptionsView):
    """How locks behave, whichever `WriteOptions.lock_provider` says."""

    __slots__ = ()

    wait_ms = _option("hoodie.write.lock.wait_time_ms", "Milliseconds to wait for the lock.", default=60_000, minimum=0)
    poll_ms = _option(
        "hoodie.write.lock.wait_time_ms_between_retry",
        "Milliseconds between two attempts to take the lock; the default depends on the lock provider.",
        kind=int,
        minimum=1,
    )
    filesystem_path = _option(
        "hoodie.write.lock.filesystem.path",
        "Folder of the lock file, relative to the table's root; Hudi's default folder by default.",
    )
    expire_minutes = _option(
        "hoodie.write.lock.filesystem.expire",
        "Minutes after which another writer may take over a lock file; 0 for never.",
        default=0,
        minimum=0,
    )
    validity_s = _option(
        "hoodie.write.lock.storage.validity.timeout.secs",
        "Seconds that a storage-based lock is valid without renewal; at least ten renewal intervals.",
        default=300,
        minimum=10,
    )
    renew_s = _option(
        "hoodie.write.lock.storage.renew.interval.secs",
        "Seconds between two renewals of a storage-based lock.",
        default=30,
        minimum=1,
        job_keys=("hoodie.write.lock.storage.heartbeat.poll.secs",),
    )

    @property
    def lock_folder(self) -> str | None:
        """Folder of the lock file; None for the table's own."""
        return self.filesystem_path or None

    def poll_s(self, usual: float) -> float:
        """Seconds between two looks, `usual` unless set."""
        return usual if self.poll_ms is None else self.poll_ms / 1000

    @classmethod
    def of(cls, options: Options) -> Self:
        """The view of resolved options.

        Raises:
            InvalidArgumentError: a lock would be renewed too late, which Hudi refuses too.
        """
        view = super().of(options)
        if view.validity_s < 10 * view.renew_s:
            raise InvalidArgumentError(
                f"{cls.validity_s}={view.validity_s} must be at least ten times {cls.renew_s}={view.renew_s}"
            )
        return view
