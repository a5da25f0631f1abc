"""Translate errors of object stores into pudi's, and decide which requests to repeat."""

from __future__ import annotations

import re

from obstore.exceptions import (
    BaseError,
    GenericError,
    InvalidPathError,
    JoinError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.exceptions import NotSupportedError as StoreNotSupportedError

from pudi.errors import (
    NO_FILE,
    CorruptError,
    InvalidArgumentError,
    NotFoundError,
    NotSupportedError,
    PudiError,
    RefusedError,
    StoreNotFoundError,
    UnavailableError,
)

SILENT = (BaseError, OSError, ValueError)
"""Errors that obstore raises."""

_STATUS = re.compile(r"status(?: code)?: (\d{3})")
_BAD_RANGE = re.compile(r"NotPartial|non-partial|Invalid range|InvalidRange|StartTooLarge")
_NO_CONTAINER = re.compile(r"NoSuchBucket|ContainerNotFound|The specified (?:bucket|container) does not exist")
_NEVER_SENT = re.compile(r"builder error|BadScheme")
_ROLE = re.compile(
    r"/latest/(?:api/token|meta-data/)|//169\.254\.1[67]|/metadata/identity/oauth2/token|/computeMetadata/"
)
"""Addresses asked for the credentials of a machine's or container's role if none are given: S3, Azure, Google."""
_PASSING = {408, 409, 425, 429}
_CODE = re.compile(r"<Code>(\w+)</Code>|\(code: (\w+)\)")
"""S3's code of an error: it answers a deletion of many keys with success, and says in the body which keys failed."""
_PASSING_CODES = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "OperationAborted"}
_REFUSING_CODES = {"AccessDenied", "AllAccessDisabled"}
_FULL = 507
_TOO_LARGE = re.compile(r"EntityTooLarge|status(?: code)?: 413")


def status_of(error: Exception) -> int | None:
    """The HTTP status that an error came from, if it came from one."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def _codes_of(error: Exception) -> set[str]:
    """The codes in an answer of S3 that says by its status that all is well."""
    return {one or other for one, other in _CODE.findall(str(error))} if status_of(error) in {None, 200} else set()


def is_no_container(error: Exception) -> bool:
    """Whether the bucket or container itself isn't there."""
    return _NO_CONTAINER.search(str(error)) is not None


def may_pass(error: Exception) -> bool:
    """Whether the same request may succeed later: no answer, a busy store, a failure on the store's side."""
    status, codes = status_of(error), _codes_of(error)
    if codes:
        return codes <= _PASSING_CODES
    if status is not None:
        return (status >= 500 and status != _FULL) or status in _PASSING
    if _ROLE.search(str(error)):  # only machines in a cloud answer at this address
        return False
    if _is_bad_range(error) or _NEVER_SENT.search(str(error)):
        return False
    return isinstance(error, GenericError | JoinError | TimeoutError | ConnectionError)


def translate(error: Exception, root: str, path: str, offset: int | None = None) -> PudiError:
    """Translate an error of obstore into one of pudi.

    Args:
        error: what obstore raised.
        root: the storage's root.
        path: the file concerned.
        offset: byte offset wanted, where a range was read.
    """
    reason = str(error).partition("\n")[0]
    status = status_of(error)
    if _ROLE.search(str(error)):
        kind: type[PudiError] = RefusedError
        advice = _credentials(root)
        message = f"there are no credentials for the store: {advice} (this machine's role gives none: {reason})"
    elif is_no_container(error):
        kind = StoreNotFoundError
        message = "there is no such bucket or container: check its name, the region and the endpoint"
    elif isinstance(error, FileNotFoundError) or status == 404:
        kind, message = NotFoundError, NO_FILE
    elif status == 416 or _is_bad_range(error):
        kind, message = CorruptError, f"bytes past the file's end are wanted: {reason}"
    elif _NEVER_SENT.search(str(error)):
        kind, message = InvalidArgumentError, f"the endpoint can't be used (http:// needs allow_http=true): {reason}"
    elif isinstance(error, ValueError | InvalidPathError):
        kind, message = NotSupportedError, f"object stores can't hold this name: {reason}"
    elif isinstance(error, StoreNotSupportedError):
        kind, message = NotSupportedError, f"the store can't do this: {reason}"
    elif isinstance(error, UnknownConfigurationKeyError):
        kind, message = InvalidArgumentError, reason
    elif isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError) or (
        _codes_of(error) & _REFUSING_CODES
    ):
        kind, message = RefusedError, f"the store refuses access, check the credentials: {reason}"
    elif status == _FULL:
        kind, message = RefusedError, f"the store is full: make room, then call again: {reason}"
    elif _TOO_LARGE.search(str(error)):
        kind, message = RefusedError, f"the store takes no file so large: write smaller ones: {reason}"
    else:
        kind, message = UnavailableError, f"the store doesn't answer as it should: {reason}"
    return kind(message, table=root, path=path, offset=offset if kind is CorruptError else None)


def _credentials(root: str) -> str:
    """Advice for missing credentials."""
    if root.startswith("s3"):
        return (
            "give access_key_id and secret_access_key in storage_options, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY in the environment; for a public bucket skip_signature=true"
        )
    return "give them in storage_options; for what is public skip_signature=true"


def _is_bad_range(error: Exception) -> bool:
    return isinstance(error, GenericError) and _BAD_RANGE.search(str(error)) is not None
