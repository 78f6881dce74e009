"""A real HTTP server on loopback whose answers a test writes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Reply:
    """One HTTP answer. `cut` closes the connection after that many bytes of the body."""

    status: int = 200
    body: bytes | dict[str, Any] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None


@dataclass(frozen=True)
class Request:
    """What the server was sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    raw_path: str


Answer = Callable[[Request], Reply | None]
"""Answers a request; None closes the connection without a word."""


class StubServer:
    """Answers with what a function of the request says; keeps the requests."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[Request] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                text = self.rfile.read(length)
                body = json.loads(text) if text else None
                path = self.path.partition("?")[0]
                request = Request(self.command, path, dict(self.headers), body, self.path)
                stub.requests.append(request)
                reply = answer(request)
                if reply is None:
                    self.close_connection = True
                    return
                content = (
                    reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                )
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in reply.headers:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content[: reply.cut])
                if reply.cut is not None:
                    self.close_connection = True

            do_GET = do_POST = do_HEAD = handle_any  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request: object, client_address: object) -> None:
                """Say nothing: clients that hang up are part of the tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def completion(text: str | None = "hello", **more: Any) -> dict[str, Any]:
    """Return a chat completion as servers send them; `more` goes into its message."""
    return {
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text, **more},
            }
        ],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 5},
        },
    }


def served(*models: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of /v1/models."""
    return {"object": "list", "data": list(models)}
