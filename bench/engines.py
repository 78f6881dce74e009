"""What our engines cost on top of what is under them, and how long a step takes on this machine.

Run as: python bench/engines.py MODEL.gguf [ROUNDS]

1. Eight parallel sessions of three turns through EmbeddedEngine against the same prompts through
   xllamacpp's own handle_chat_completions in eight threads: ours must give 90 % of its tokens per
   second. The two take turns, so that a busy machine slows both; the ratio is of the best rounds.
2. Sixty-four sessions through OpenAIEngine against a server that answers after 200 ms: at most 1.25
   of the ideal time.
3. Seconds of a step: a 3,000-token prompt from cold, its next turn, and eight sessions at once.

Returns 1 where a limit is missed. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import xllamacpp
from http_concurrency import ANSWER_AFTER, ROUNDS, ours, serve

from lwm_agents.engines.embedded import EmbeddedEngine
from lwm_agents.values import Completion, Message, Sampling

SESSIONS, TURNS, ANSWER, CONTEXT = 8, 3, 32, 2048
SYSTEM = "You predict what a shell prints. " + "A file is listed with its size and its date. " * 12


def history(salt: int, session: int, turn: int) -> list[Message]:
    """Return the messages of a session's turn; the turns before it are a prefix of them."""
    messages = [Message(role="system", content=SYSTEM)]
    for number in range(turn + 1):
        if number:
            messages.append(
                Message(role="assistant", content=f"total {number}\n{salt} a.txt b.txt")
            )
        command = f"$ cat run{salt}/session{session}/file{number}.txt | head -n 40"
        messages.append(Message(role="user", content=command))
    return messages


def raw_server(model: str, threads: int) -> Any:
    """Return xllamacpp's server with as many slots and as much context as ours."""
    p = xllamacpp.CommonParams()
    p.model.path = model
    p.n_parallel, p.n_ctx, p.kv_unified, p.verbosity = SESSIONS, CONTEXT * SESSIONS, False, -1
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
    return xllamacpp.Server(p)


def raw_round(server: Any, salt: int) -> float:
    """Return generated tokens per second of xllamacpp alone."""

    def session(number: int) -> int:
        count = 0
        for turn in range(TURNS):
            answer = server.handle_chat_completions(
                {
                    "messages": [m.model_dump() for m in history(salt, number, turn)],
                    "max_tokens": ANSWER,
                    "temperature": 0.0,
                    "id_slot": number,
                }
            )
            count += answer["usage"]["completion_tokens"]
        return count

    since = perf_counter()
    with ThreadPoolExecutor(SESSIONS) as threads:
        tokens = sum(threads.map(session, range(SESSIONS)))
    return tokens / (perf_counter() - since)


async def our_round(engine: EmbeddedEngine, salt: int) -> float:
    """Return generated tokens per second through the engine."""

    async def session(number: int) -> int:
        count = 0
        for turn in range(TURNS):
            found = await engine.complete(
                history(salt, number, turn),
                sampling=Sampling(max_tokens=ANSWER, cache_key=f"session {number}"),
            )
            count += found.usage.completion
        return count

    since = perf_counter()
    tokens = sum(await asyncio.gather(*(session(n) for n in range(SESSIONS))))
    return tokens / (perf_counter() - since)


async def parallel(model: str, rounds: int) -> float:
    """Print tokens per second of both, and return ours against raw."""
    engine = EmbeddedEngine(model, context=CONTEXT, slots=SESSIONS)
    server = raw_server(model, len(os.sched_getaffinity(0)))
    raw, mine = [], []
    await our_round(engine, 0)  # loads the model
    for number in range(1, rounds + 1):
        raw.append(await asyncio.to_thread(raw_round, server, number))
        mine.append(await our_round(engine, number))
        print(f"  round {number}: raw {raw[-1]:6.1f}, ours {mine[-1]:6.1f} tokens/s", flush=True)
    await engine.close()
    return max(mine) / max(raw)


async def latencies(model: str) -> None:
    """Print the seconds of a cold prompt, of its next turns, and of eight of those at once."""
    engine = EmbeddedEngine(model, context=8192, slots=SESSIONS)
    filler = "-rw-r--r-- 1 user user 1204 report.txt\n"

    async def step(messages: list[Message], key: str) -> tuple[Completion, float]:
        since = perf_counter()
        found = await engine.complete(messages, sampling=Sampling(max_tokens=ANSWER, cache_key=key))
        return found, perf_counter() - since

    await step([Message(role="user", content="hello")], "load")
    start = [Message(role="user", content=filler * 158 + "$ ls")]
    cold, seconds = await step(start, "0")
    print(
        f"  cold prompt of {cold.usage.prompt:,} tokens, {ANSWER} tokens answered: {seconds:.1f} s"
    )
    then = [*start, Message(role="assistant", content=cold.text)]
    then.append(Message(role="user", content="$ cat report.txt"))
    warm, seconds = await step(then, "0")
    new = warm.usage.prompt - warm.usage.cached
    print(f"  its next turn, {new} tokens new: {seconds:.1f} s")
    for turn in range(2):
        since = perf_counter()
        await asyncio.gather(*(step(history(99, n, turn), str(n)) for n in range(SESSIONS)))
    seconds = perf_counter() - since
    print(f"  {SESSIONS} sessions, the second turn of each at once: {seconds:.1f} s for all")
    await engine.close()


def over_http(sessions: int = 64) -> float:
    """Return the time of the sessions through OpenAIEngine against the ideal, best of three."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{here.recv()}/v1"
    best = min(asyncio.run(ours(url, sessions)) for _ in range(3))
    server.terminate()
    server.join()
    return best / (ROUNDS * ANSWER_AFTER)


def main() -> int:
    """Print all three; return 1 where a limit is missed."""
    if len(sys.argv) < 2:
        sys.exit("Run as: python bench/engines.py MODEL.gguf [ROUNDS]")
    model = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    http = over_http()
    print(f"64 sessions over HTTP: {http:.2f} of ideal (at most 1.25)", flush=True)
    print(f"{SESSIONS} parallel sessions of {TURNS} turns in process:")
    ratio = asyncio.run(parallel(model, rounds))
    print(f"  ours {ratio:.2f} of raw xllamacpp (at least 0.90)")
    print("one step:")
    asyncio.run(latencies(model))
    return 0 if http <= 1.25 and ratio >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
