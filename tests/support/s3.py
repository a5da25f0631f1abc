"""An S3 store over HTTP (moto), which can be told to misbehave."""

from __future__ import annotations

import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "lake-of-tests"
_KEY = re.compile("<Key>.*?</Key>")


@dataclass
class S3Server:
    """A moto server in a thread. Requests are served one at a time, since moto's conditional writes are not atomic.

    Attributes:
        faults: what happens to the next requests that match: (method, part of the path, status or None for a lost
            answer after success; for a deletion of many keys also a code, which each key fails with).
        requests: method and path of each request served.
    """

    faults: list[tuple[str, str, int | str | None]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    guard: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    def __post_init__(self) -> None:
        self.app = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self.guard:
            method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
            self.requests.append((method, path))
            for at, (wanted, part, status) in enumerate(self.faults):
                if wanted == method and part in path:
                    del self.faults[at]
                    if isinstance(status, str):
                        return _no_key_deleted(environ, start_response, status)
                    if status is None:
                        list(self.app(environ, lambda *_: None))
                    start_response(f"{status or 500} Simulated", [("Content-Length", "0")])
                    return [b""]
            return list(self.app(environ, start_response))

    def options(self) -> dict[str, str]:
        """Storage options that reach this server."""
        return {
            "endpoint": self.url,
            "allow_http": "true",
            "region": "us-east-1",
            "access_key_id": "test",
            "secret_access_key": "test",
        }

    def new_root(self) -> str:
        """A location with nothing in it."""
        return f"s3://{BUCKET}/tables/t {uuid.uuid4()}"  # what servers in one process hold is one

    def client(self) -> Any:
        """boto3's view of the store."""
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )


def _no_key_deleted(environ: dict[str, Any], start_response: Callable[..., Any], code: str) -> Iterable[bytes]:
    """Answer DeleteObjects as S3 does where it can't delete: with success, and an error for each key."""
    asked = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])).decode()
    errors = [f"<Error>{key}<Code>{code}</Code><Message>No.</Message></Error>" for key in _KEY.findall(asked)]
    answer = f"<DeleteResult>{''.join(errors)}</DeleteResult>".encode()
    start_response("200 OK", [("Content-Type", "application/xml"), ("Content-Length", str(len(answer)))])
    return [answer]


@contextmanager
def serve_s3() -> Iterator[S3Server]:
    """A server that runs inside the block, with its bucket."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    served = S3Server()
    server = make_server("127.0.0.1", 0, served, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.port}"
    served.client().create_bucket(Bucket=BUCKET)
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
