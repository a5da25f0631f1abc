"""What a job's options say about locks (LockConfiguration, HoodieLockConfig, StorageBasedLockConfig)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pudi.errors import InvalidArgumentError

PREFIX = "hoodie.write.lock."


@dataclass(frozen=True, slots=True)
class LockSettings:
    """How locks behave.

    Attributes:
        wait_ms: how long to wait for a lock, milliseconds (hoodie.write.lock.wait_time_ms).
        poll_ms: time between two looks at a lock that another holds, milliseconds
            (hoodie.write.lock.wait_time_ms_between_retry); None leaves it to the lock.
        expire_minutes: age at which another's lock file is taken for abandoned; 0 is never
            (hoodie.write.lock.filesystem.expire).
        lock_folder: folder of the lock file, None for the table's own (hoodie.write.lock.filesystem.path).
        validity_s: how long a storage-based lock is good for without renewal, seconds
            (hoodie.write.lock.storage.validity.timeout.secs).
        renew_s: time between its renewals, seconds (hoodie.write.lock.storage.renew.interval.secs).
    """

    wait_ms: int = 60_000
    poll_ms: int | None = None
    expire_minutes: int = 0
    lock_folder: str | None = None
    validity_s: int = 300
    renew_s: int = 30

    def poll_s(self, usual: float) -> float:
        """Seconds between two looks, `usual` unless set."""
        return usual if self.poll_ms is None else self.poll_ms / 1000

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> LockSettings:
        """The settings in a job's options; keys of other things are left alone.

        Raises:
            InvalidArgumentError: a value is no number, or one that Hudi refuses too.
        """
        usual = cls()
        renew_key = f"{PREFIX}storage.renew.interval.secs"
        if renew_key not in options:
            renew_key = f"{PREFIX}storage.heartbeat.poll.secs"  # the older name
        poll_key = f"{PREFIX}wait_time_ms_between_retry"
        settings = cls(
            wait_ms=_whole(options, f"{PREFIX}wait_time_ms", usual.wait_ms, 0),
            poll_ms=_whole(options, poll_key, 0, 1) if poll_key in options else None,
            expire_minutes=_whole(options, f"{PREFIX}filesystem.expire", usual.expire_minutes, 0),
            lock_folder=options.get(f"{PREFIX}filesystem.path") or None,
            validity_s=_whole(options, f"{PREFIX}storage.validity.timeout.secs", usual.validity_s, 10),
            renew_s=_whole(options, renew_key, usual.renew_s, 1),
        )
        if settings.validity_s < 10 * settings.renew_s:
            raise InvalidArgumentError(
                f"{PREFIX}storage.validity.timeout.secs={settings.validity_s} must be at least ten times "
                f"{PREFIX}storage.renew.interval.secs={settings.renew_s}"
            )
        return settings


def _whole(options: Mapping[str, str], key: str, default: int, least: int) -> int:
    text = options.get(key)
    if text is None:
        return default
    if not text.strip().isdecimal() or len(text) > 12 or int(text) < least:
        raise InvalidArgumentError(f"{key}={text!r} must be a whole number, {least} or more")
    return int(text)
