"""Commit callbacks: functions and an HTTP endpoint that are called after each completed commit.

Source: HoodieWriteCommitCallback, called by BaseHoodieWriteClient.commitStats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pudi.client import MetaClient
from pudi.client.result import ActionReport
from pudi.client.schema_commit import SERVICE_OPERATIONS
from pudi.config import HTTP_CALLBACK, CallbackOptions
from pudi.config.option import checked_name
from pudi.context.runtime import lazy_module
from pudi.errors import NotSupportedError
from pudi.format import CommitMetadata, WriteStat
from pudi.timeline import Instant

if TYPE_CHECKING:
    from pudi.hooks import http_callback
else:
    http_callback = lazy_module("pudi.hooks.http_callback")


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """Message to a commit callback (HoodieWriteCommitCallbackMessage).

    Attributes:
        commit_time: requested time of the commit, as `CommitResult.instant`.
        completion_time: completion time; below table version 8 the requested time.
        table_name: the table's name.
        base_path: location of the table's root.
        action: action of the instant: `commit`, `deltacommit` or `replacecommit`.
        operation: what was done, by Hudi's name (`UPSERT`, …).
        write_stats: the files that the commit wrote.
        extra_metadata: the commit's extra metadata; `schema` is the table's Avro schema.
    """

    commit_time: str
    completion_time: str
    table_name: str
    base_path: str
    action: str
    operation: str
    write_stats: tuple[WriteStat, ...]
    extra_metadata: Mapping[str, str]

    def to_json(self) -> bytes:
        """The message as Hudi's HTTP callback sends it: a JSON object with Hudi's keys."""
        return http_callback.encode_commit_message(self.commit_time, self.table_name, self.base_path, self.write_stats)


CommitCallback: TypeAlias = Callable[[CommitMessage], object]
"""A user's function that is called after each completed commit."""

_REGISTERED: dict[str, CommitCallback] = {}


def register_commit_callback(name: str, callback: CommitCallback) -> None:
    """Make a function known to this process as a commit callback.

    Tables opened with `hoodie.write.commit.callback.on=true` and the name in `hoodie.write.commit.callback.class` call
    it in the writing thread after each completed commit. If it raises an error, the commit stands, and
    `CommitResult.failed_services` names the callback.

    Args:
        name: the name in the option, without commas. A function registered before under the same name is replaced.
        callback: takes a `CommitMessage`.

    Raises:
        InvalidArgumentError: the name is empty, has a comma or is one of Hudi's classes, or `callback` can't be called.
    """
    _REGISTERED[checked_name("commit callback", name, callback)] = callback


def check_callbacks(meta: MetaClient) -> None:
    """Refuse callbacks that can't be called, before anything is written.

    Raises:
        NotSupportedError: a name that is neither registered nor Hudi's HTTP callback.
        InvalidArgumentError: the HTTP callback's URL or headers are missing or wrong.
    """
    options = CallbackOptions.of(meta.options)
    for name in options.names:
        if name == HTTP_CALLBACK:
            http_callback.check_endpoint(options)
        elif name not in _REGISTERED:
            raise NotSupportedError(
                f"{CallbackOptions.classes}={name}: no commit callback of that name is registered in this process, and "
                "pudi never loads a class by name; call pudi.register_commit_callback first, or use "
                f"{', '.join(sorted({HTTP_CALLBACK, *_REGISTERED}))}",
                table=meta.storage.root,
            )


def announce(meta: MetaClient, done: Instant, written: CommitMetadata, report: ActionReport) -> None:
    """Call the callbacks after a write has completed; table services and metadata tables have none.

    Args:
        meta: the table.
        done: the completed instant.
        written: its commit metadata.
        report: where failures are noted.
    """
    options = CallbackOptions.of(meta.options)
    if not options.names or meta.is_metadata or written.operation_type in SERVICE_OPERATIONS:
        return
    message = CommitMessage(
        commit_time=done.requested,
        completion_time=done.completion or done.requested,
        table_name=meta.config.name,
        base_path=meta.storage.root,
        action=done.action.value,
        operation=written.operation_type or "",
        write_stats=tuple(written.stats),
        extra_metadata=dict(written.extra_metadata),
    )
    for name in options.names:
        with report.after_commit(f"callback {name}", retried=False):
            if name == HTTP_CALLBACK:
                http_callback.post(options, message.to_json(), meta.context.executor)
            else:
                _REGISTERED[name](message)
