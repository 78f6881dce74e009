"""Which HTTP client keeps up: many concurrent requests against a server that answers after 200 ms.

Run as: python bench/http_concurrency.py [CONCURRENT]

Prints, for each client that is installed, the wall time against the ideal (rounds x 200 ms), best
of three. The server runs in a process of its own, on loopback. The clients that lwm-agents does not
use are measured only where they are installed: pip install httpx niquests.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import multiprocessing
import re
import sys
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any, cast

from aiohttp import ClientSession, TCPConnector

from lwm_agents.engines.openai import OpenAIEngine
from lwm_agents.values import Message, Sampling

ANSWER_AFTER = 0.2
ROUNDS = 5
PROMPT = "drwxr-xr-x 2 user user 4096 file.txt\n" * 300
Ask = Callable[[], Awaitable[object]]


class Stub(asyncio.Protocol):
    """The least HTTP/1.1 that answers: its own work must not count."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        """Answer once a whole request is there: at once for a GET, else after 200 ms."""
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        if not end or len(body) < int(length[1] if length else 0):
            return
        answer = MODELS if head.startswith(b"GET") else ANSWER
        self._received.clear()
        wait = 0 if head.startswith(b"GET") else ANSWER_AFTER
        asyncio.get_running_loop().call_later(wait, self._transport.write, answer)


def http(body: object) -> bytes:
    """Return a whole HTTP answer that carries the body as JSON."""
    text = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(text)}"
    return head.encode() + b"\r\n\r\n" + text


MODELS = http({"data": [{"id": "stub", "max_model_len": 8192}]})
ANSWER = http(
    {
        "choices": [{"message": {"content": PROMPT[:2000]}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3000, "completion_tokens": 600},
    }
)


def serve(ready: Connection) -> None:
    """Serve until killed; send the port through `ready`."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0, backlog=512)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def rounds(ask: Ask, concurrent: int) -> float:
    """Return the seconds `concurrent` callers take for ROUNDS requests each, one after another."""

    async def caller() -> None:
        for _ in range(ROUNDS):
            await ask()

    await ask()
    since = perf_counter()
    await asyncio.gather(*(caller() for _ in range(concurrent)))
    return perf_counter() - since


async def ours(url: str, concurrent: int) -> float:
    """Measure OpenAIEngine, everything it does included."""
    engine = OpenAIEngine(url)
    messages = [Message(role="user", content=PROMPT)]

    async def ask() -> object:
        return await engine.complete(messages, sampling=Sampling())

    seconds = await rounds(ask, concurrent)
    await engine.close()
    return seconds


BODY = {"model": "stub", "messages": [{"role": "user", "content": PROMPT}]}


async def with_aiohttp(url: str, concurrent: int) -> float:
    """Measure aiohttp alone."""
    async with ClientSession(connector=TCPConnector(limit=concurrent)) as session:

        async def ask() -> object:
            async with session.post(f"{url}/chat/completions", json=BODY) as response:
                return json.loads(await response.read())

        return await rounds(ask, concurrent)


async def with_httpx(url: str, concurrent: int, name: str = "httpx") -> float:
    """Measure httpx, or a successor with the same interface."""
    httpx: Any = importlib.import_module(name)
    limits = httpx.Limits(max_connections=concurrent, max_keepalive_connections=concurrent)
    async with httpx.AsyncClient(limits=limits, timeout=60, trust_env=False) as client:

        async def ask() -> object:
            return (await client.post(f"{url}/chat/completions", json=BODY)).json()

        return await rounds(ask, concurrent)


async def with_httpx2(url: str, concurrent: int) -> float:
    """Measure httpx2."""
    return await with_httpx(url, concurrent, "httpx2")


async def with_niquests(url: str, concurrent: int) -> float:
    """Measure niquests."""
    niquests: Any = importlib.import_module("niquests")
    async with niquests.AsyncSession(pool_connections=1, pool_maxsize=concurrent) as session:
        session.trust_env = False

        async def ask() -> object:
            return (await session.post(f"{url}/chat/completions", json=BODY)).json()

        return await rounds(ask, concurrent)


CLIENTS: dict[str, Callable[[str, int], Awaitable[float]]] = {
    "OpenAIEngine": ours,
    "aiohttp": with_aiohttp,
    "httpx": with_httpx,
    "httpx2": with_httpx2,
    "niquests": with_niquests,
}


def main() -> int:
    """Print one line for each client; return 1 where ours takes more than 1.25 of the ideal."""
    concurrent = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(there,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{here.recv()}/v1"
    ideal = ROUNDS * ANSWER_AFTER
    print(f"{concurrent} callers, {ROUNDS} requests each, answered after {ANSWER_AFTER:.1f} s")
    ratios = {}
    for name, measure in CLIENTS.items():
        if name != "OpenAIEngine" and importlib.util.find_spec(name) is None:
            print(f"{name:14} not installed")
            continue
        best = min(asyncio.run(_measured(measure, url, concurrent)) for _ in range(3))
        ratios[name] = best / ideal
        print(f"{name:14} {best:6.2f} s   {ratios[name]:5.2f} of ideal", flush=True)
    server.terminate()
    server.join()
    return 0 if ratios["OpenAIEngine"] <= 1.25 else 1


async def _measured(
    measure: Callable[[str, int], Awaitable[float]], url: str, concurrent: int
) -> float:
    return await measure(url, concurrent)


if __name__ == "__main__":
    sys.exit(main())
