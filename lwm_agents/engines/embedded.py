"""A GGUF model run by llama.cpp inside this process, through xllamacpp.

Calls go straight to llama.cpp. (xllamacpp also opens a loopback port that can't be turned off; it
is closed to everybody by a key that is drawn at random and kept nowhere.)
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

from lwm_agents.engines.conforming import check_schema, conforming
from lwm_agents.engines.gguf import read_header
from lwm_agents.engines.slots import ANY, SlotTable
from lwm_agents.errors import EngineRefused, EngineUnreachable, Misuse
from lwm_agents.values import Completion, Json, Messages, Sampling, Usage

# Tokens evaluated in one go. It is also how long a cancelled prompt goes on being evaluated, and
# how long other conversations wait for it; llama.cpp's own 2,048 is 14 s on two cores, no faster.
_BATCH = 512

# Prompts thrown out of a slot wait in this much memory (MiB) for their conversation to come back.
_REMEMBERED = 1024
_LOOP_CHECK = 32


class EmbeddedEngine:
    """llama.cpp in process: a prefix cache, and `slots` conversations at once.

    `context` is tokens per conversation, prompt and answer together, cut to what the model was
    trained for. Memory: the file, and the cache of `slots` times `context` tokens (0.5B: 12 KiB
    a token; 7B: about 56 KiB). `threads` is by default every core this process may use. `thinking`
    lets a reasoning model think first, if its template knows how to turn that off. The model is
    loaded at the first call; `on_load` is then told, from another thread, that it is being loaded
    and that it is ready, in words.

    The file is checked when the engine is made. Raises Misuse where it is missing, no GGUF or cut.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        context: int = 8192,
        slots: int = 4,
        threads: int | None = None,
        thinking: bool = False,
        on_load: Callable[[str], None] | None = None,
    ) -> None:
        if context < 256 or slots < 1 or (threads is not None and threads < 1):
            raise Misuse("an embedded engine needs context >= 256, slots >= 1, threads >= 1")
        self._path = Path(path).expanduser()
        header = read_header(self._path)
        self._context = min(context, header.trained_context or context)
        self._slots = slots
        self._threads = threads or _usable_cores()
        self._thinking = thinking
        self._on_load = on_load
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._server: Any = None
        self._workers: ThreadPoolExecutor | None = None
        self._table = SlotTable(slots)
        self._running: set[threading.Event] = set()

    def __repr__(self) -> str:
        return f"EmbeddedEngine({self._path.name!r}, context={self._context}, slots={self._slots})"

    @property
    def name(self) -> str:
        """The file's name, without the folder it lies in."""
        return self._path.name

    @property
    def context(self) -> int:
        """How many tokens fit, prompt and answer together."""
        return self._context

    @property
    def local(self) -> bool:
        """Always true: nothing leaves this process."""
        return True

    @property
    def prefills(self) -> bool:
        """Whether an assistant's message at the end is taken as the beginning of the answer."""
        return not self._thinking

    async def complete(
        self, messages: Messages, *, sampling: Sampling, schema: dict[str, Json] | None = None
    ) -> Completion:
        """Return one completion; with `schema`, its text is JSON that conforms to it.

        Calls with the same `sampling.cache_key` evaluate only what their prompts do not share with
        the one before. Cancelling ends the generation at its next token, and a long prompt at its
        next 512 tokens. Raises EngineRefused where the prompt does not fit or llama.cpp says no,
        EngineUnreachable where the model can't be loaded.
        """
        if schema is not None:
            check_schema(schema)
        request = self._request(messages, sampling, schema)
        stop = threading.Event()
        with self._lock:
            if self._workers is None:
                self._workers = ThreadPoolExecutor(self._slots, thread_name_prefix="lwm-llama")
            self._running.add(stop)
            work = self._workers.submit(self._generate, request, sampling.cache_key, stop)
        try:
            completion = await asyncio.wrap_future(work)
        finally:
            stop.set()
            with self._lock:
                self._running.discard(stop)
        return completion if schema is None else conforming(completion, schema)

    async def close(self) -> None:
        """End what is running and unload the model. A later call loads it again."""
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        with self._lock:
            workers, self._workers = self._workers, None
            for stop in self._running:
                stop.set()
        if workers is not None:
            workers.shutdown(wait=True, cancel_futures=True)
        with self._loading:
            self._server = None
            self._table = SlotTable(self._slots)

    def _request(
        self, messages: Messages, sampling: Sampling, schema: dict[str, Json] | None
    ) -> dict[str, Json]:
        request: dict[str, Json] = {
            "messages": [message.model_dump() for message in messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            # llama.cpp's own defaults would narrow the choice further than was asked for.
            "top_k": 0,
            "min_p": 0.0,
            "max_tokens": sampling.max_tokens,
            "cache_prompt": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            # Reports while the prompt is evaluated, so that a call can be cancelled there too.
            "return_progress": True,
            "chat_template_kwargs": {"enable_thinking": self._thinking},
        }
        if sampling.seed is not None:
            request["seed"] = sampling.seed
        if sampling.stop:
            request["stop"] = list(sampling.stop)
        if sampling.logprobs:
            request |= {"logprobs": True, "top_logprobs": 1}
        if schema is not None and self._thinking:
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": schema},
            }
        elif schema is not None:
            # The format above also allows a Markdown fence and blanks around the answer, on which
            # small models spend their tokens. This allows the JSON alone, but no thinking.
            request["grammar"] = import_module("xllamacpp").json_schema_to_grammar(schema)
        return request

    def _generate(
        self, request: dict[str, Json], key: str | None, stop: threading.Event
    ) -> Completion:
        """Run one request; in a worker thread, so that never more run than there are slots."""
        answer = _Answer(stop)
        if stop.is_set():
            raise EngineRefused(f"{self.name} was closed before it could answer")
        server = self._loaded()
        slot = self._table.take(key)
        try:
            returned = server.handle_chat_completions(
                request if slot == ANY else request | {"id_slot": slot}, answer.chunk
            )
        except (RuntimeError, ValueError) as error:
            raise EngineRefused(f"{self.name} refused the request: {error}") from None
        finally:
            self._table.give(slot)
        if isinstance(returned, dict):
            answer.chunk(returned)
        return answer.completion(self.name)

    def _loaded(self) -> Any:
        """Return llama.cpp's server, loading the model at the first call."""
        with self._loading:
            if self._server is None:
                self._tell(f"loading {self.name} ({self._path.stat().st_size / 1e6:,.0f} MB)")
                since = monotonic()
                self._server = self._load()
                self._tell(f"{self.name} is ready after {monotonic() - since:.1f} s")
            return self._server

    def _load(self) -> Any:
        xllamacpp = import_module("xllamacpp")
        p = xllamacpp.CommonParams()
        p.model.path = str(self._path)
        # A stream of cache per slot: attention then reads a conversation's own tokens only.
        p.kv_unified = False
        p.n_parallel = self._slots
        p.n_ctx = self._context * self._slots
        p.n_batch = p.n_ubatch = _BATCH
        p.cache_ram_mib = _REMEMBERED
        p.cpuparams.n_threads = p.cpuparams_batch.n_threads = self._threads
        # Sleep at a barrier, don't spin: no slower alone (25 tokens/s on two cores either way), and
        # beside one other busy process five times as fast (25 against 5).
        p.cpuparams.poll = p.cpuparams_batch.poll = 0
        p.verbosity = -1
        p.api_keys = [secrets.token_hex(32)]
        p.ui = p.endpoint_slots = False
        p.n_threads_http = 1
        p.offline = True
        try:
            return xllamacpp.Server(p)
        except (RuntimeError, ValueError, MemoryError) as error:
            raise EngineUnreachable(
                f"llama.cpp can't load {self._path}: {error}. A damaged file, a kind of model it"
                f" does not know, or too little memory for {self._slots} x {self._context} tokens"
            ) from None

    def _tell(self, what: str) -> None:
        if self._on_load is not None:
            self._on_load(what)


class _Answer:
    """Collects the pieces of one answer as llama.cpp hands them over."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._logprobs: list[float] = []
        self._finish: str | None = None
        self._usage = Usage()
        self._error: dict[str, Json] | None = None

    def chunk(self, piece: dict[str, Json]) -> bool:
        """Take one piece; return True to end the generation.

        What this raises would be lost inside llama.cpp, hence no look-up here can fail.
        """
        self._error = piece.get("error") or self._error
        for choice in piece.get("choices") or ():
            delta = choice.get("delta") or choice.get("message") or {}
            self._text.append(delta.get("content") or "")
            self._reasoning.append(delta.get("reasoning_content") or "")
            self._finish = choice.get("finish_reason") or self._finish
            for token in (choice.get("logprobs") or {}).get("content") or ():
                self._logprobs.append(token.get("logprob", 0.0))
        usage = piece.get("usage")
        if usage:
            self._usage = Usage(
                prompt=usage.get("prompt_tokens") or 0,
                cached=(usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
                completion=usage.get("completion_tokens") or 0,
            )
        if len(self._text) % _LOOP_CHECK == 0 and loops("".join(self._text)):
            self._finish = "length"
            self._usage = self._usage.model_copy(update={"completion": len(self._text)})
            return True
        return self._stop.is_set()

    def completion(self, name: str) -> Completion:
        """Return the whole answer; raise EngineRefused where there is none."""
        if self._error is not None:
            raise EngineRefused(f"{name} refused the request: {_said(self._error)}")
        if self._finish is None:
            raise EngineRefused(f"{name} was stopped before its answer was complete")
        return Completion(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            finish_reason=self._finish,
            usage=self._usage,
            logprobs=tuple(self._logprobs) or None,
        )


def loops(text: str) -> bool:
    """Return whether a text ends in one piece, at most 200 characters, over and over.

    Eight times, and over 400 characters at least. A small model that got there seldom gets out:
    without this it goes on to the token limit, which on a CPU takes half a minute.
    """
    for period in range(1, 201):
        tail = text[-max(8 * period, 400) :]
        if len(tail) < max(8 * period, 400):
            return False
        if tail[period:] == tail[:-period]:
            return True
    return False


def _said(error: dict[str, Json]) -> str:
    if error.get("type") == "exceed_context_size_error":
        return (
            f"the prompt has {error.get('n_prompt_tokens')} tokens and the context holds"
            f" {error.get('n_ctx')}; give the engine a larger context or shorten the history"
        )
    return str(error.get("message") or error)[:500]


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
