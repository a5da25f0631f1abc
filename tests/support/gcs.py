"""Google Cloud Storage as obstore speaks to it: the requests of its XML API that pudi makes, objects in memory.

The emulators on PyPI (gcp-storage-emulator, fake-gcs-server) know the JSON API only.
Source: https://cloud.google.com/storage/docs/xml-api (preconditions by x-goog-if-generation-match).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "lake-of-tests"


@dataclass(frozen=True)
class Object:
    """One generation of an object."""

    data: bytes
    generation: int
    metadata: dict[str, str]

    @property
    def headers(self) -> dict[str, str]:
        tag = hashlib.md5(self.data).hexdigest()
        facts = {
            "ETag": f'"{tag}"',
            "x-goog-generation": str(self.generation),
            "Last-Modified": formatdate(usegmt=True),
        }
        return {**facts, **self.metadata}


@dataclass
class GcsServer:
    """A bucket, its requests served side by side, each write under one guard.

    Attributes:
        conditions: the preconditions of writes that came.
        lost: keys whose next write takes effect without an answer.
    """

    objects: dict[str, Object] = field(default_factory=dict)
    conditions: list[tuple[str, str]] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    guard: threading.Lock = field(default_factory=threading.Lock)
    generations: Iterator[int] = field(default_factory=lambda: itertools.count(1_700_000_000_000_000))
    url: str = ""

    def options(self) -> dict[str, str]:
        """Storage options that reach this server."""
        key = {
            "gcs_base_url": self.url,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        return {"service_account_key": json.dumps(key), "allow_http": "true"}

    def new_root(self) -> str:
        """A location with nothing in it."""
        return f"gs://{BUCKET}/tables/t {uuid.uuid4()}"

    def put(self, key: str, data: bytes, condition: str | None, metadata: dict[str, str]) -> Object | None:
        """Write an object; None where its generation isn't the one of the condition (0: there is none)."""
        with self.guard:
            if condition is not None:
                self.conditions.append((key, condition))
                there = self.objects.get(key)
                if int(condition) != (there.generation if there else 0):
                    return None
            made = self.objects[key] = Object(data, next(self.generations), metadata)
            return made

    def listed(self, prefix: str, delimiter: str | None) -> str:
        """The answer of a listing, in one page."""
        folders, entries = set(), []
        with self.guard:
            for key, found in sorted(self.objects.items()):
                if not key.startswith(prefix):
                    continue
                if delimiter and delimiter in key[len(prefix) :]:
                    folders.add(prefix + key[len(prefix) :].partition(delimiter)[0] + delimiter)
                    continue
                entries.append(
                    f"<Contents><Key>{escape(key)}</Key><Generation>{found.generation}</Generation>"
                    f"<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>{found.headers['ETag']}</ETag>"
                    f"<Size>{len(found.data)}</Size></Contents>"
                )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders)
        )
        body = f"<Name>{BUCKET}</Name><IsTruncated>false</IsTruncated>{''.join(entries)}{common}"
        return f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>{body}</ListBucketResult>'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: GcsServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _key(self) -> str:
        bucket, _, key = urlsplit(self.path).path.removeprefix("/").partition("/")
        return unquote(key) if unquote(bucket) == BUCKET else ""

    def _answer(self, status: int, data: bytes = b"", headers: dict[str, str] | None = None, size: int = -1) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) if size < 0 else size))
        self.end_headers()
        self.wfile.write(data)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        metadata = {name: value for name, value in self.headers.items() if name.lower().startswith("x-goog-meta-")}
        key = self._key()
        made = self.served.put(key, data, self.headers.get("x-goog-if-generation-match"), metadata)
        if made is None:
            self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        elif key in self.served.lost:
            self.served.lost.discard(key)
            self._answer(503)
        else:
            self._answer(200, headers=made.headers)

    def do_GET(self) -> None:
        if not self._key():
            asked = parse_qs(urlsplit(self.path).query)
            text = self.served.listed(asked.get("prefix", [""])[0], asked.get("delimiter", [None])[0])
            self._answer(200, text.encode(), {"Content-Type": "application/xml"})
            return
        found = self.served.objects.get(self._key())
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if found is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif wanted is None:
            self._answer(200, found.data, found.headers)
        else:
            size = len(found.data)
            start = int(wanted[1]) if wanted[1] else max(0, size - int(wanted[2]))
            end = min(size, int(wanted[2]) + 1) if wanted[1] and wanted[2] else size
            if start >= size:
                self._answer(416, b"<Error><Code>InvalidRange</Code></Error>")
            else:
                headers = {**found.headers, "Content-Range": f"bytes {start}-{end - 1}/{size}"}
                self._answer(206, found.data[start:end], headers)

    def do_HEAD(self) -> None:
        found = self.served.objects.get(self._key())
        if found is None:
            self._answer(404)
        else:
            self._answer(200, b"", found.headers, len(found.data))

    def do_DELETE(self) -> None:
        with self.served.guard:
            found = self.served.objects.pop(self._key(), None)
        self._answer(404 if found is None else 204)


@contextmanager
def serve_gcs() -> Iterator[GcsServer]:
    """A server that runs inside the block, with its bucket."""
    served = GcsServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"served": served}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
