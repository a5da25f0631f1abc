"""An HTTP endpoint in the test's process, which keeps what it is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Endpoint:
    """What was posted.

    Attributes:
        url: where to post.
        status: status of the next answers.
        answers: cleared, no request is answered.
        requests: method, path, headers by lower-case name, and body of each request.
    """

    url: str = ""
    status: int = 200
    answers: threading.Event = field(default_factory=threading.Event)
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """Serve until the block ends."""
    kept = Endpoint()
    kept.answers.set()

    class Handler(BaseHTTPRequestHandler):
        def _keep(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            kept.requests.append((self.command, self.path, headers, body))
            kept.answers.wait(60)
            self.send_response(kept.status)
            if kept.status in {301, 302, 307}:
                self.send_header("Location", f"{kept.url}/elsewhere")
            self.end_headers()

        do_POST = do_PUT = do_GET = do_DELETE = _keep  # noqa: N815 - the names are those of the base class

        def log_message(self, format: str, *args: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client no longer waits
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_address[1]}"
    serving = threading.Thread(target=server.serve_forever, args=(0.02,))
    serving.start()
    try:
        yield kept
    finally:
        kept.answers.set()
        server.shutdown()
        server.server_close()
        serving.join()
