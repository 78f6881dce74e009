"""Any server that speaks OpenAI's chat completions: vLLM, SGLang, llama.cpp, a hosted one.

Which HTTP client, and why: `bench/http_concurrency.py`. What the fields mean:
https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from time import time
from typing import Any, NoReturn
from weakref import finalize

import aiohttp
from yarl import URL

from lwm_agents.engines.background import BackgroundLoop
from lwm_agents.engines.conforming import check_schema, conforming
from lwm_agents.errors import EngineError, EngineRefused, EngineUnreachable, Misuse
from lwm_agents.values import Completion, Json, Messages, Sampling, Usage

log = logging.getLogger(__name__)

DEFAULT_CONTEXT = 32_768
"""Tokens taken to fit where the server does not say."""

LONGEST_ANSWER = 64 * 2**20
"""Bytes read of one HTTP answer; more is refused rather than held in memory."""

LONGEST_PAUSE = 30.0
"""Seconds that our own growing waits between attempts stop growing at."""

LONGEST_WAIT = 60.0
"""Seconds that a server's Retry-After may ask for; more is refused with that number."""

# Parameters a server may not know or allow, with the name to use instead, if there is one.
_OPTIONAL = {
    "max_tokens": "max_completion_tokens",
    "prompt_cache_key": None,
    "seed": None,
    "temperature": None,
    "top_p": None,
}
_BUSY = frozenset({408, 429, 500, 502, 503, 504, 529})


class _BusyError(Exception):
    """The request may be sent again: the server is busy, or the connection broke."""

    def __init__(self, error: EngineError, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.after = after


class OpenAIEngine:
    """A model behind an OpenAI-compatible URL.

    `base_url` is `http://host:port` or ends in the API's path, such as `/v1`. Without `model` the
    server is asked which one it serves. `timeout` (seconds) bounds one attempt from the request to
    the last byte, `connect_timeout` the connection. A request is tried `attempts` times in all
    where the server is busy (408, 429, 5xx) or the connection breaks, with growing waits or what
    Retry-After says. At most `concurrency` requests are under way at once; others wait their turn.

    No redirect is followed, and proxies named in the environment are ignored: nothing is sent to a
    host that was not named. `proxy` names one. `extra` is merged into every request's body, for
    what only one server knows, such as vLLM's `chat_template_kwargs`.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        api_key: str | None = None,
        *,
        context: int | None = None,
        timeout: float = 600.0,
        connect_timeout: float = 10.0,
        attempts: int = 5,
        first_wait: float = 0.5,
        concurrency: int = 64,
        proxy: str | None = None,
        extra: Mapping[str, Json] | None = None,
    ) -> None:
        if attempts < 1 or concurrency < 1:
            raise Misuse("an engine needs attempts >= 1 and concurrency >= 1")
        self._url = _endpoint(base_url)
        self._model = model
        self._key = _header_safe(api_key)
        self._context = context
        self._asked = False
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._attempts = attempts
        self._first_wait = first_wait
        self._concurrency = concurrency
        self._proxy = proxy
        self._extra = dict(extra or {})
        self._renamed: dict[str, str | None] = {}
        if self._url.host == "api.openai.com":
            self._renamed["max_tokens"] = "max_completion_tokens"
        self._pool = _Pool(connect_timeout, timeout, concurrency)
        # Runs at garbage collection or exit, so that an engine nobody closed leaks nothing.
        self._finalizer = finalize(self, self._pool.close)

    def __repr__(self) -> str:
        return f"OpenAIEngine({self.name!r})"

    @property
    def name(self) -> str:
        """URL and model in the form `engine_from` takes: `http://host:8000/v1#model`."""
        shown = str(self._url.with_query(None))
        return f"{shown}#{self._model}" if self._model else shown

    @property
    def local(self) -> bool:
        """Whether the address is this machine's loopback, and no proxy stands in between."""
        host = self._url.host or ""
        if self._proxy is not None:
            return False
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def context(self) -> int:
        """How many tokens fit, prompt and answer together; 32,768 where the server does not say.

        The first use asks the server, once, for at most `connect_timeout` seconds; `complete` asks
        without blocking, so await `complete` or `discover` first where that matters.
        """
        if self._context is None and not self._asked:
            self._asked = True
            try:
                self._pool.loop.submit(self._discover(patient=False)).result(self._connect_timeout)
            except (EngineError, Misuse, TimeoutError) as error:
                log.debug("no context length from %s: %s", self.name, error)
        return self._context or DEFAULT_CONTEXT

    async def discover(self) -> None:
        """Ask the server for its model and context length, where they were not given."""
        await self._pool.loop.run(self._discover(patient=True))

    async def complete(
        self, messages: Messages, *, sampling: Sampling, schema: dict[str, Json] | None = None
    ) -> Completion:
        """Return one completion; with `schema`, its text is JSON that conforms to it.

        Raises EngineUnreachable where nothing answered in time, EngineRefused where the answer was
        an error or no completion, and Misuse where the server has several models and none is named.
        """
        if schema is not None:
            check_schema(schema)
        return await self._pool.loop.run(self._complete(messages, sampling, schema))

    async def close(self) -> None:
        """Give back the connections and the thread. The engine can be used again afterwards."""
        await asyncio.get_running_loop().run_in_executor(None, self._pool.close)

    # Everything below runs on the pool's own loop.

    async def _complete(
        self, messages: Messages, sampling: Sampling, schema: dict[str, Json] | None
    ) -> Completion:
        if self._model is None or (self._context is None and not self._asked):
            await self._discover(patient=True)
        url = self._at("chat/completions")
        wanted = self._body(messages, sampling, schema)
        while True:
            body = {self._renamed.get(k, k): v for k, v in wanted.items()}
            body.pop(None, None)
            status, answer = await self._send("POST", url, body)
            unknown = _unknown_parameter(answer, body) if status in (400, 422) else None
            if unknown is None:
                break
            self._renamed[unknown] = _OPTIONAL[unknown]
            log.warning("%s does not take %r; it is left out from now on", self.name, unknown)
        if status != 200:
            self._refuse(url, status, answer)
        completion = self._read(url, answer)
        return completion if schema is None else conforming(completion, schema)

    def _body(
        self, messages: Messages, sampling: Sampling, schema: dict[str, Json] | None
    ) -> dict[str, Json]:
        body: dict[str, Json] = {
            "model": self._model,
            "messages": [message.model_dump() for message in messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if sampling.logprobs:
            body |= {"logprobs": True, "top_logprobs": 1}
        if sampling.cache_key is not None:
            body["prompt_cache_key"] = sampling.cache_key
        if schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": schema},
            }
        return body | self._extra

    def _read(self, url: URL, answer: bytes) -> Completion:
        try:
            found = json.loads(answer)
            choice = found["choices"][0]
            message = choice["message"]
            text = message.get("content")
            reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
            if text is None and not reasoning:
                raise ValueError("no content")
            usage = found.get("usage") or {}
            details = usage.get("prompt_tokens_details") or {}
            tokens = (choice.get("logprobs") or {}).get("content")
            return Completion(
                text=text or "",
                reasoning=reasoning,
                finish_reason=choice.get("finish_reason") or "stop",
                usage=Usage(
                    prompt=usage.get("prompt_tokens") or 0,
                    cached=details.get("cached_tokens") or 0,
                    completion=usage.get("completion_tokens") or 0,
                ),
                logprobs=None if tokens is None else tuple(t["logprob"] for t in tokens),
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            self._refuse(url, 200, answer, f"no completion ({type(error).__name__})")

    async def _discover(self, *, patient: bool) -> None:
        """Set model and context from /v1/models, and from llama.cpp's /props where need be."""
        self._asked = True
        url = self._at("models")
        status, answer = await self._send("GET", url, None, attempts=None if patient else 1)
        try:
            served = json.loads(answer)["data"] if status == 200 else None
            ids = [entry["id"] for entry in served or []]
        except (ValueError, KeyError, TypeError):
            served = None
        if self._model is None:
            if not served:
                self._refuse(
                    url, status, answer, f"no list of models; name one as {self._url}#MODEL"
                )
            if len(ids) > 1:
                some = ", ".join(ids[:8]) + (", …" if len(ids) > 8 else "")
                raise Misuse(
                    f"{self.name} serves {len(ids)} models; name one as {self.name}#MODEL: {some}"
                )
            self._model = ids[0]
        if self._context is None:
            entry: dict[str, Json] = next((e for e in served or [] if e["id"] == self._model), {})
            self._context = _context_of(entry)
            if self._context is None and entry.get("owned_by") == "llamacpp":
                self._context = await self._llama_context()

    async def _llama_context(self) -> int | None:
        status, answer = await self._send("GET", self._url.parent / "props", None, attempts=1)
        try:
            return int(json.loads(answer)["default_generation_settings"]["n_ctx"])
        except (ValueError, KeyError, TypeError):
            log.debug("no context length in /props (status %s)", status)
            return None

    def _at(self, path: str) -> URL:
        return (self._url / path).with_query(self._url.query)

    async def _send(
        self, method: str, url: URL, body: dict[Any, Json] | None, attempts: int | None = None
    ) -> tuple[int, bytes]:
        """Return status and body of the answer; raise EngineError once the attempts are used up."""
        attempts = attempts or self._attempts
        async with self._pool.turn():
            for attempt in range(attempts):
                try:
                    return await self._once(method, url, body)
                except _BusyError as busy:
                    if attempt + 1 == attempts:
                        raise busy.error from None
                    pause = busy.after
                if pause is None:
                    pause = min(self._first_wait * 2**attempt, LONGEST_PAUSE)
                    # Callers that were turned away together must not come back together.
                    pause += random.uniform(0, self._first_wait)
                await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, method: str, url: URL, body: dict[Any, Json] | None) -> tuple[int, bytes]:
        headers = {"Accept": "application/json"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            async with self._pool.session().request(
                method, url, data=data, headers=headers, allow_redirects=False, proxy=self._proxy
            ) as response:
                answer = bytearray()
                async for chunk in response.content.iter_chunked(2**16):
                    answer += chunk
                    if len(answer) > LONGEST_ANSWER:
                        raise EngineRefused(f"{_shown(url)} answered more than 64 MiB")
        # `from None`: the client's own errors may hold the request's headers, and the key.
        except (aiohttp.ClientSSLError, aiohttp.ClientConnectorError) as error:
            raise self._unreachable(url, self._hide(error)) from None
        except aiohttp.ConnectionTimeoutError:
            raise self._unreachable(
                url, f"no connection within {self._connect_timeout:g} s"
            ) from None
        except TimeoutError:
            raise self._unreachable(url, f"no answer within {self._timeout:g} s") from None
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError) as error:
            said = self._hide(error) or type(error).__name__
            raise _BusyError(self._unreachable(url, f"the connection broke: {said}")) from None
        except aiohttp.ClientError as error:
            raise EngineRefused(
                f"{_shown(url)} answered no sound HTTP: {self._hide(error)[:300]}"
            ) from None
        if 300 <= response.status < 400:
            where = self._hide(response.headers.get("Location", "nowhere"))[:200]
            raise EngineRefused(
                f"{_shown(url)} redirects ({response.status}) to {where}; redirects are not"
                " followed: name that address instead if you trust it"
            )
        if response.status in _BUSY:
            raise self._busy(url, response, bytes(answer))
        return response.status, bytes(answer)

    def _busy(self, url: URL, response: aiohttp.ClientResponse, answer: bytes) -> Exception:
        refused = self._refused(url, response.status, answer)
        after = _seconds(response.headers.get("Retry-After"))
        if after is not None and after > LONGEST_WAIT:
            return EngineRefused(f"{refused} (asks to wait {after:.0f} s)")
        return _BusyError(refused, after)

    def _unreachable(self, url: URL, what: str) -> EngineUnreachable:
        port = self._url.port
        return EngineUnreachable(
            f"no engine at {_shown(url)}: {what}\n"
            "Start one, for example:\n"
            f"  vllm serve MODEL --port {port}\n"
            f"  llama-server --model FILE.gguf --port {port}"
        )

    def _refused(self, url: URL, status: int, answer: bytes, why: str = "") -> EngineRefused:
        said = self._hide(_message(answer))
        shown = said if len(said) <= 500 else f"{said[:500]}… ({len(answer)} bytes)"
        return EngineRefused(
            f"{_shown(url)} answered {status}{f', {why}' if why else ''}: {shown or '(nothing)'}"
        )

    def _refuse(self, url: URL, status: int, answer: bytes, why: str = "") -> NoReturn:
        raise self._refused(url, status, answer, why)

    def _hide(self, said: object) -> str:
        return str(said).replace(self._key, "***") if self._key else str(said)


class _Pool:
    """The connections of one engine, on a loop of their own. Knows nothing of the engine."""

    def __init__(self, connect_timeout: float, timeout: float, concurrency: int) -> None:
        self.loop = BackgroundLoop("lwm-http")
        self._timeout = aiohttp.ClientTimeout(
            total=timeout, connect=None, sock_connect=connect_timeout
        )
        self._concurrency = concurrency
        self._session: aiohttp.ClientSession | None = None
        self._turns: asyncio.Semaphore | None = None

    def session(self) -> aiohttp.ClientSession:
        """Return the session, made at first use on the pool's loop."""
        if self._session is None:
            # Idle connections are dropped before uvicorn's 5 s do it under a request of ours.
            connector = aiohttp.TCPConnector(limit=self._concurrency, keepalive_timeout=4.0)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "lwm-agents"},
            )
        return self._session

    def turn(self) -> asyncio.Semaphore:
        """Return what lets `concurrency` requests through at once."""
        if self._turns is None:
            self._turns = asyncio.Semaphore(self._concurrency)
        return self._turns

    def close(self) -> None:
        """Close the connections and end the thread."""
        self.loop.stop(self._close())

    async def _close(self) -> None:
        session, self._session, self._turns = self._session, None, None
        if session is not None:
            await session.close()


def _endpoint(base_url: str) -> URL:
    """Return the API's root: `/v1` is added to a bare host, a full path is cut back to it."""
    try:
        url = URL(base_url.strip())
    except ValueError as error:
        raise Misuse(f"{base_url!r} is no URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise Misuse(f"an engine's URL starts with http:// or https:// and a host: {base_url!r}")
    if url.user is not None or url.password is not None:
        raise Misuse("put the key in LWM_API_KEY, not into the engine's URL")
    path = url.path.rstrip("/").removesuffix("/chat/completions")
    return url.with_path(path or "/v1").with_query(url.query)


def _header_safe(key: str | None) -> str | None:
    key = (key or "").strip()
    if not key.isascii() or not key.isprintable():
        raise Misuse("the API key holds characters that no HTTP header can carry")
    return key or None


def _shown(url: URL) -> str:
    """The URL without its query, which may hold a key."""
    return str(url.with_query(None))


def _message(answer: bytes) -> str:
    """What the server said went wrong: its JSON's message, or else its text on one line."""
    text = answer[:20_000].decode("utf-8", "replace")
    try:
        found = json.loads(text)
        error = found.get("error", found)
        said = error.get("message") if isinstance(error, dict) else error
        if isinstance(said, str):
            return said
    except (ValueError, AttributeError):
        pass
    return " ".join(text.split())


def _unknown_parameter(answer: bytes, body: Mapping[Any, Json]) -> str | None:
    """Return the optional parameter that a 400 or 422 complains about, if it does."""
    said = _message(answer) + answer[:2000].decode("utf-8", "replace")
    complains = any(
        word in said.lower()
        for word in ("unsupported", "not support", "unknown", "unrecognized", "extra_forbidden",
                     "extra inputs", "not permitted", "unexpected", "invalid parameter")
    )  # fmt: skip
    if not complains:
        return None
    return next((name for name in _OPTIONAL if name in body and _names(name, said)), None)


def _names(parameter: str, said: str) -> bool:
    return any(f"{q}{parameter}{q}" in said for q in ("'", '"', "`"))


def _seconds(retry_after: str | None) -> float | None:
    """Return the seconds that a Retry-After header asks for: a number, or a date."""
    if retry_after is None:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time())
    except ValueError:
        return None


def _context_of(entry: Mapping[str, Json]) -> int | None:
    """Return the context length in an entry of /v1/models.

    vLLM and SGLang say max_model_len, llama.cpp meta.n_ctx, hosted ones the others.
    """
    meta = entry.get("meta")
    said = [entry.get(k) for k in ("max_model_len", "context_length", "context_window")]
    said.append(meta.get("n_ctx") if isinstance(meta, dict) else None)
    return next((n for n in said if isinstance(n, int) and n > 0), None)
