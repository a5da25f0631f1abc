"""Requests to a REST catalog: bearer tokens, client credentials, repeated attempts, and errors by their kind.

Sources: rest-catalog-open-api.yaml of Apache Iceberg, oauth-tokens-api.yaml of Apache Polaris, RFC 6749, RFC 9110
(`Retry-After`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from typing import Any, Final

from pudi.catalogs.catalog import TableName, with_retries
from pudi.config import PolarisOptions
from pudi.context import Context
from pudi.errors import (
    NotFoundError,
    PudiError,
    RefusedError,
    SetupError,
    TableExistsError,
    UnavailableError,
    cause_text,
)

_TOKENS: Final = "/v1/oauth/tokens"
_EARLY_S: Final = 30.0
"""Seconds before it expires in which a token is replaced."""
_LIFE_S: Final = 3600.0
"""Life of a token whose answer doesn't say it."""
_EXPIRED: Final = (401, 419)
_PASSING: Final = (408, 429)
_CONNECTIONS: Final = 8
_LONGEST: Final = 500
"""Characters of an answer that an error shows."""


@dataclass(frozen=True, slots=True)
class RestRequest:
    """A request to the service.

    Attributes:
        method: `GET`, `POST` or `DELETE`.
        path: the part that follows the service's address.
        about: the table, or what else errors name.
        query: parameters in the address.
        body: the content, sent as JSON.
    """

    method: str
    path: str
    about: TableName | str
    query: Mapping[str, str] | None = None
    body: Mapping[str, Any] | None = None


class RestClient:
    """Requests to one service. Threads may share it.

    Args:
        catalog: address of the catalog, for errors.
        uri: address of the service.
        options: who asks, and how long an answer may take.
        context: waits and time.

    Raises:
        SetupError: the package requests is missing.
        InvalidArgumentError: the credential is of another form.
    """

    def __init__(self, catalog: str, uri: str, options: PolarisOptions, context: Context) -> None:
        if find_spec("requests") is None:
            raise SetupError("Apache Polaris needs the package requests: pip install 'pudi[polaris]'")
        self._catalog, self._uri, self._options, self._context = catalog, uri.rstrip("/"), options, context
        self._client = options.client
        self._made: Any = None
        self._token, self._token_ends = options.token or "", 0.0
        self._guard, self._opening = threading.Lock(), threading.Lock()

    def answer(self, request: RestRequest, note: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Return the answer of a request, after a few attempts where the service doesn't answer.

        Args:
            request: the request.
            note: called before each attempt: of one that failed it's unknown whether it had its effect.

        Raises:
            NotFoundError, TableExistsError, RefusedError, UnavailableError: by the answer.
        """

        def attempt() -> dict[str, Any]:
            note()
            return self._attempt(request)

        return with_retries(attempt, self._context)

    def close(self) -> None:
        """Close connections; a later request opens them again."""
        with self._opening:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    def _attempt(self, request: RestRequest) -> dict[str, Any]:
        method, url, content = request.method, self._uri + request.path, {"params": request.query, "json": request.body}
        token = self._current_token()
        answer = self._send(method, url, token, **content)
        if answer.status_code in _EXPIRED and self._client is not None:
            answer = self._send(method, url, self._current_token(instead_of=token), **content)
        if 200 <= answer.status_code < 300:
            return self._content(answer)
        raise self._error(answer, method, request.about)

    def _current_token(self, instead_of: str = "") -> str:
        """Return the token to send; a new one where there is none, or that one expired or was refused."""
        if self._client is None:
            return self._token
        with self._guard:
            now = self._context.clock.monotonic()
            if not self._token or self._token == instead_of or now >= self._token_ends:
                given = self._new_token(self._client)
                self._token = str(given.get("access_token") or "")
                self._token_ends = now + max(float(given.get("expires_in") or _LIFE_S) - _EARLY_S, 0.0)
            return self._token

    def _new_token(self, client: tuple[str, str]) -> dict[str, Any]:
        """Return what the service answers to the credential (RFC 6749, 4.4)."""
        asked = {
            "grant_type": "client_credentials",
            "client_id": client[0],
            "client_secret": client[1],
            "scope": self._options.scope,
        }
        place = self._options.token_uri or self._uri + _TOKENS
        answer = self._send("POST", place, "", data=asked)
        said = answer.text.replace(client[1], "…")[:_LONGEST]
        if _is_passing(answer.status_code):
            raise self._passing(answer, f"{self._catalog}: {place} gives no token now ({answer.status_code})")
        if answer.status_code != 200:
            wrong = f"{PolarisOptions.credential} and {PolarisOptions.scope}"
            if answer.status_code == 404:
                wrong = f"{PolarisOptions.uri} and {PolarisOptions.token_uri}"
            raise RefusedError(
                f"{self._catalog}: {place} gives no token for the credential ({answer.status_code}: {said}); "
                f"check {wrong}"
            )
        given = self._content(answer)
        if not given.get("access_token"):
            raise RefusedError(f"{self._catalog}: {place} answers without a token; check {PolarisOptions.token_uri}")
        return given

    def _send(self, method: str, url: str, token: str, **content: Any) -> Any:
        import requests  # noqa: PLC0415 - optional

        def signed(request: Any) -> Any:  # as `auth`, since a .netrc would replace a plain header
            if token:
                request.headers["Authorization"] = f"Bearer {token}"
            return request

        try:
            return self._session().request(
                method, url, auth=signed, timeout=self._options.timeout, allow_redirects=False, **content
            )
        except requests.exceptions.SSLError as error:
            raise RefusedError(
                f"{self._catalog}: the certificate of the server isn't trusted: {cause_text(error)}; name the file of "
                "its authority in REQUESTS_CA_BUNDLE"
            ) from error
        except (
            requests.exceptions.InvalidURL,
            requests.exceptions.InvalidSchema,
            requests.exceptions.MissingSchema,
        ) as error:
            raise RefusedError(f"{self._catalog}: {url} can't be asked: {cause_text(error)}") from error
        except requests.exceptions.RequestException as error:
            raise UnavailableError(
                f"{self._catalog} doesn't answer: {cause_text(error)}; check that {PolarisOptions.uri} is right and "
                "the server is up"
            ) from error

    def _session(self) -> Any:
        with self._opening:
            if self._made is None:
                import requests  # noqa: PLC0415 - optional
                from requests.adapters import HTTPAdapter  # noqa: PLC0415 - optional

                session = requests.Session()
                for scheme in ("http://", "https://"):
                    session.mount(scheme, HTTPAdapter(pool_connections=2, pool_maxsize=_CONNECTIONS))
                if self._options.realm:
                    session.headers["Polaris-Realm"] = self._options.realm
                self._made = session
            return self._made

    def _content(self, answer: Any) -> dict[str, Any]:
        try:
            content = answer.json() if answer.content else {}
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise RefusedError(
                f"{self._catalog} answers with {answer.text[:_LONGEST]!r} instead of JSON; check that "
                f"{PolarisOptions.uri} is the address of Polaris's REST service"
            )
        return content

    def _error(self, answer: Any, method: str, about: TableName | str) -> PudiError:
        status, what = answer.status_code, f"table {about}" if isinstance(about, TableName) else about
        said = f"{status}: {_message(answer)}"
        if status == 404:
            return NotFoundError(f"{self._catalog}: there is no {what}, or no namespace of it ({said})")
        if status == 409:
            return TableExistsError(f"{self._catalog}: there is a {what} already ({said})")
        if _is_passing(status):
            return self._passing(answer, f"{self._catalog} failed in {method} of the {what} ({said})")
        if status in _EXPIRED:
            advice = f"give a valid {PolarisOptions.credential} or {PolarisOptions.token}"
        elif status == 403:
            advice = "let an administrator of the catalog grant the right, or allow the location, and try again"
        else:
            advice = "what was registered before stands"
        return RefusedError(f"{self._catalog} refused {method} of the {what} ({said}); {advice}")

    def _passing(self, answer: Any, message: str) -> UnavailableError:
        """Return the error of an answer that may be another later, with the wait that the service asks for."""
        wait = _retry_after_s(answer.headers.get("Retry-After", ""), self._context.clock.now_ms() / 1000)
        error = UnavailableError(f"{message}; try again {f'in {wait:.0f} s' if wait else 'later'}")
        error.retry_after_s = wait
        return error


def _retry_after_s(text: str, now: float) -> float:
    """Return the seconds that a header `Retry-After` asks for, as a number or a date; 0 where it says neither."""
    if text.strip().isdecimal():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return 0.0
    date = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
    return max(date.timestamp() - now, 0.0)


def _is_passing(status: int) -> bool:
    return status in _PASSING or status >= 500


def _message(answer: Any) -> str:
    """Return what an answer says: the message of Iceberg's form of errors, or its text."""
    try:
        return str(answer.json()["error"]["message"])[:_LONGEST]
    except (ValueError, KeyError, TypeError):
        return str(answer.text)[:_LONGEST] or str(answer.reason)
