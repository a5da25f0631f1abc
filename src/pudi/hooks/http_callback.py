"""The HTTP commit callback: makes Hudi's message of a commit, and posts it to an endpoint.

Source: HoodieWriteCommitHttpCallbackClient.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pudi.config import CallbackOptions
from pudi.context import Executor
from pudi.errors import InvalidArgumentError, RefusedError, UnavailableError
from pudi.format.instant_json import printed_stat
from pudi.format.instants import WriteStat, stat_record

_PRESENT = {"empty": False, "present": True}
_EMPTY = {"empty": True, "present": False}


def encode_commit_message(commit_time: str, table_name: str, base_path: str, stats: Sequence[WriteStat]) -> bytes:
    """Encode a HoodieWriteCommitCallbackMessage as Hudi's HTTP callback sends it.

    Hudi's Jackson writes an optional value without the value: receivers learn only that there are an action and extra
    metadata.

    Args:
        commit_time: requested time of the commit.
        table_name: the table's name.
        base_path: location of the table's root.
        stats: the files that the commit wrote.

    Source: HoodieWriteCommitCallbackUtil.convertToJsonString.
    """
    printed: dict[str, Any] = {
        "commitTime": commit_time,
        "tableName": table_name,
        "basePath": base_path,
        "hoodieWriteStat": [{**printed_stat(stat_record(stat)), "columnStats": _EMPTY} for stat in stats],
        "commitActionType": _PRESENT,
        "extraMetadata": _PRESENT,
    }
    return json.dumps(printed, ensure_ascii=False, separators=(",", ":")).encode()


_API_KEY = "HUDI-CALLBACK-KEY"


def check_endpoint(options: CallbackOptions) -> None:
    """Refuse an endpoint that nothing can be posted to.

    Raises:
        InvalidArgumentError: no URL, a URL of another scheme than http and https, or headers that can't be parsed.
    """
    _address(options)
    _headers(options)


def post(options: CallbackOptions, message: bytes, executor: Executor) -> None:
    """Post a message; redirects aren't followed, and the answer's body isn't read.

    Args:
        options: where to, and with which headers.
        message: the JSON text.
        executor: waits for the answer.

    Raises:
        UnavailableError: the endpoint can't be reached, or doesn't answer in time.
        RefusedError: it answers with a status of 300 or more.
    """
    address, seconds = _address(options), options.timeout_seconds
    answer = executor.call_within(seconds, lambda: _status(address, message, _headers(options), seconds))
    if answer is None:
        raise UnavailableError(f"{_shown(address)} gave no answer within {seconds} s")
    if isinstance(answer, Exception):
        raise UnavailableError(f"{_shown(address)} can't be reached: {answer}") from answer
    if answer >= 300:
        raise RefusedError(f"{_shown(address)} answered with status {answer}")


def _status(address: SplitResult, message: bytes, headers: dict[str, str], seconds: int) -> int | Exception:
    """Return the status of the answer, or why there is none: the call runs in a thread of its own."""
    secure = address.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    try:
        connection = kind(address.hostname or "", address.port, timeout=seconds)
        try:
            target = address._replace(scheme="", netloc="", fragment="").geturl() or "/"
            connection.request("POST", target, message, headers)
            return connection.getresponse().status
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        return error


def _address(options: CallbackOptions) -> SplitResult:
    if not options.url:
        raise InvalidArgumentError(f"{CallbackOptions.on}=true with Hudi's HTTP callback needs {CallbackOptions.url}")
    try:
        address = urlsplit(options.url.strip())
        known = address.scheme in {"http", "https"} and bool(address.hostname) and address.port != 0
    except ValueError:
        known = False
    if not known:
        raise InvalidArgumentError(f"{CallbackOptions.url} is no URL of http or https with a host")
    return address


def _headers(options: CallbackOptions) -> dict[str, str]:
    if not options.api_key.isprintable():
        raise InvalidArgumentError(f"{CallbackOptions.api_key} has characters that no header can have")
    headers = {_API_KEY: options.api_key, "Content-Type": "application/json; charset=UTF-8"}
    for part in filter(str.strip, (options.custom_headers or "").split(";")):
        name, colon, value = part.partition(":")
        if not (colon and name.strip() and value.strip()) or not part.isprintable():
            raise InvalidArgumentError(
                f"{CallbackOptions.custom_headers} is not of the form Name1:value1;Name2:value2: {name.strip()!r}"
            )
        headers[name.strip()] = value.strip()
    return headers


def _shown(address: SplitResult) -> str:
    """Return a URL without what may be secret: user, password and query."""
    port = "" if address.port is None else f":{address.port}"
    return f"{address.scheme}://{address.hostname}{port}{address.path}"
