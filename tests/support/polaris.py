"""Apache Polaris's REST routes as pudi asks them: namespaces, generic tables, and tokens, in memory.

Written from spec/polaris-catalog-apis/generic-tables-api.yaml and oauth-tokens-api.yaml of Apache Polaris, and
Iceberg's rest-catalog-open-api.yaml: no Polaris server was at hand.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

CREDENTIAL = ("reader", "s3cr3t:with-colon")
WAREHOUSE = "lake"
PREFIX = "of lake"
_SERVICE = "/api/catalog"
_PAGE = 2
_LEVELS = "\x1f"

Answer = tuple[int, dict[str, Any] | None]


@dataclass
class PolarisServer:
    """A catalog, each request under one guard.

    Attributes:
        namespaces: the generic tables by their names, by namespace, whose levels dots separate.
        icebergs: names of Iceberg tables: namespace and name.
        faults: statuses that the next requests of a method answer, by the end of the path.
        retry_after: header `Retry-After` of answers 429 and 503; empty for none.
        lost: methods whose next request has its effect, but no answer.
        requests: method and path of each request, without those for tokens and the configuration.
        tokens: those that are valid now.
        asked: forms of the requests for tokens.
        lives: seconds that new tokens are said to live.
        realms: the realms that requests named.
        static: a token that is always valid.
        routes: what the configuration says of the routes; empty for nothing.
    """

    namespaces: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    icebergs: set[tuple[str, str]] = field(default_factory=set)
    faults: list[tuple[str, str, int]] = field(default_factory=list)
    retry_after: str = ""
    lost: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    asked: list[dict[str, str]] = field(default_factory=list)
    lives: int = 3600
    realms: set[str] = field(default_factory=set)
    static: str = "a-token"
    routes: list[str] = field(
        default_factory=lambda: ["POST /polaris/v1/{prefix}/namespaces/{namespace}/generic-tables"]
    )
    guard: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    def options(self) -> dict[str, str]:
        """Options that reach this server."""
        return {
            "pudi.polaris.uri": self.url,
            "pudi.polaris.warehouse": WAREHOUSE,
            "pudi.polaris.credential": ":".join(CREDENTIAL),
        }

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        """What a request is answered."""
        parts = urlsplit(target)
        path, query = parts.path.removeprefix(_SERVICE), {k: v[0] for k, v in parse_qs(parts.query).items()}
        if not parts.path.startswith(_SERVICE):
            return _error(404, "NotFoundException", "no such route")
        for fault in self.faults:
            if fault[0] == method and unquote(path).endswith(fault[1]):
                self.faults.remove(fault)
                return _error(fault[2], "Fault", f"a fault of {fault[2]}")
        if path == "/v1/oauth/tokens":
            return self._token({k: v[0] for k, v in parse_qs(body.decode()).items()})
        self.realms.add(headers.get("polaris-realm", ""))
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if token != self.static and token not in self.tokens:
            return _error(401, "NotAuthorizedException", "the token is none")
        if path == "/v1/config":
            if query.get("warehouse") != WAREHOUSE:
                return _error(404, "NotFoundException", f"Unable to find warehouse {query.get('warehouse')}")
            return 200, {"defaults": {}, "overrides": {"prefix": PREFIX}, "endpoints": self.routes}
        self.requests.append(f"{method} {path}")
        return self._routed(method, [unquote(each) for each in path.split("/")[1:]], query, json.loads(body or b"{}"))

    def _token(self, form: dict[str, str]) -> Answer:
        self.asked.append(form)
        if form.get("grant_type") != "client_credentials" or form.get("scope") != "PRINCIPAL_ROLE:ALL":
            return 400, {"error": "invalid_scope"}
        if (form.get("client_id"), form.get("client_secret")) != CREDENTIAL:
            return 401, {"error": "unauthorized_client", "error_description": "The client is not authorized"}
        token = f"token-{len(self.asked)}"
        self.tokens.add(token)
        return 200, {"access_token": token, "token_type": "bearer", "expires_in": self.lives}

    def _routed(self, method: str, path: list[str], query: dict[str, str], body: dict[str, Any]) -> Answer:
        match path:
            case ["v1", found, "namespaces"] if found == PREFIX and method == "POST":
                name, above = ".".join(body["namespace"]), ".".join(body["namespace"][:-1])
                if name in self.namespaces:
                    return _error(409, "AlreadyExistsException", f"Cannot create namespace {name}. It already exists")
                if above and above not in self.namespaces:
                    return _error(404, "NoSuchNamespaceException", f"Parent namespace does not exist: {above}")
                self.namespaces[name] = {}
                return 200, {"namespace": body["namespace"], "properties": {}}
            case ["v1", found, "namespaces", levels] if found == PREFIX and method == "GET":
                name = levels.replace(_LEVELS, ".")
                if name in self.namespaces:
                    return 200, {"namespace": levels.split(_LEVELS), "properties": {}}
            case ["polaris", "v1", found, "namespaces", levels, "generic-tables", *table] if found == PREFIX:
                name = levels.replace(_LEVELS, ".")
                if name not in self.namespaces:
                    return _error(404, "NoSuchNamespaceException", f"Namespace does not exist: {name}")
                return self._tables(method, name, table, query, body)
        return _error(404, "NotFoundException", f"nothing at {'/'.join(path)}")

    def _tables(self, method: str, name: str, table: list[str], query: dict[str, str], body: dict[str, Any]) -> Answer:
        tables = self.namespaces[name]
        if not table and method == "POST":
            assert body.keys() <= {"name", "format", "base-location", "doc", "properties"}
            assert all(type(value) is str for value in body["properties"].values())
            if body["name"] in tables or (name, body["name"]) in self.icebergs:
                return _error(409, "AlreadyExistsException", f"{name}.{body['name']} already exists")
            tables[body["name"]] = body
            return 200, {"table": body}
        if not table and method == "GET":
            first = int(query.get("pageToken") or 0)
            names = sorted(tables)
            found = [{"namespace": name.split("."), "name": each} for each in names[first : first + _PAGE]]
            following = str(first + _PAGE) if first + _PAGE < len(names) else None
            return 200, {"identifiers": found, "next-page-token": following}
        if len(table) == 1 and table[0] in tables and method == "GET":
            return 200, {"table": tables[table[0]]}
        if len(table) == 1 and table[0] in tables and method == "DELETE":
            del tables[table[0]]
            return 204, None
        return _error(404, "NoSuchTableException", f"Generic table does not exist: {name}.{'/'.join(table)}")


def _error(status: int, kind: str, message: str) -> Answer:
    return status, {"error": {"message": message, "type": kind, "code": status}}


@contextmanager
def polaris_server() -> Iterator[PolarisServer]:
    """Serve until the block ends."""
    served = PolarisServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with served.guard:
                status, content = served.answer(self.command, self.path, headers, body)
                if self.command in served.lost and status < 300:
                    served.lost.remove(self.command)
                    self.close_connection = True
                    return
            data = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if served.retry_after and status in {429, 503}:
                self.send_header("Retry-After", served.retry_after)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - the names are those of the base class

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served.url = f"http://127.0.0.1:{server.server_address[1]}{_SERVICE}"
    serving = threading.Thread(target=server.serve_forever, args=(0.02,))
    serving.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
