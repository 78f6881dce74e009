"""The OpenAI-compatible engine, against real HTTP servers on loopback."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from time import sleep, time
from typing import Any

import pytest
from stub_server import Reply, Request, StubServer, completion, served

from lwm_agents.engines.base import Engine
from lwm_agents.engines.openai import DEFAULT_CONTEXT, OpenAIEngine
from lwm_agents.errors import EngineRefused, EngineUnreachable, Misuse
from lwm_agents.values import Completion, Message, Sampling

ASKED = [Message(role="system", content="You are a shell."), Message(role="user", content="ls")]
MODELS = Reply(body=served({"id": "stub", "max_model_len": 4096}))
KEY = "sk-very-secret-0123456789"


def answering(*replies: Reply | None, models: Reply = MODELS) -> Callable[[Request], Reply | None]:
    """Answer /v1/models with `models` and completions in turn, the last one for good."""
    left = list(replies)
    lock = threading.Lock()

    def answer(request: Request) -> Reply | None:
        if request.path.endswith("/models"):
            return models
        if not request.path.endswith("/chat/completions"):
            return Reply(404, {"error": "no such path"})
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return answer


async def ask(engine: OpenAIEngine, **sampling: Any) -> Completion:
    try:
        return await engine.complete(ASKED, sampling=Sampling(**sampling))
    finally:
        await engine.close()


def posts(server: StubServer) -> list[Request]:
    return [request for request in server.requests if request.method == "POST"]


async def test_sends_what_was_asked_and_reads_all_that_came_back() -> None:
    body = completion("a.txt", reasoning_content="I think of files.")
    body["choices"][0]["logprobs"] = {"content": [{"logprob": -0.5}, {"logprob": -0.25}]}
    with StubServer(answering(Reply(body=body))) as server:
        engine = OpenAIEngine(server.url, api_key=KEY)
        assert isinstance(engine, Engine)
        found = await ask(
            engine, temperature=0.5, top_p=0.9, max_tokens=7, seed=3, stop=("$",), logprobs=True,
            cache_key="session-1",
        )  # fmt: skip
    sent = posts(server)[0]
    assert sent.body == {
        "model": "stub",
        "messages": [
            {"role": "system", "content": "You are a shell."},
            {"role": "user", "content": "ls"},
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 7,
        "seed": 3,
        "stop": ["$"],
        "logprobs": True,
        "top_logprobs": 1,
        "prompt_cache_key": "session-1",
    }
    assert sent.headers["Authorization"] == f"Bearer {KEY}"
    assert (found.text, found.reasoning, found.logprobs) == (
        "a.txt",
        "I think of files.",
        (-0.5, -0.25),
    )
    assert found.usage.model_dump() == {"prompt": 9, "cached": 5, "completion": 3}
    assert engine.context == 4096
    assert engine.name == f"{server.url}/v1#stub"


async def test_a_schema_is_sent_and_the_answer_held_against_it() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    replies = [
        Reply(body=completion(text))
        for text in ('{"n": 1}', '```json\n{"n": 2}\n```', '{"n": "x"}', "{")
    ]
    with StubServer(answering(*replies)) as server:
        engine = OpenAIEngine(server.url)
        found = [
            (await engine.complete(ASKED, sampling=Sampling(), schema=schema)).text
            for _ in range(2)
        ]
        assert found == ['{"n": 1}', '{"n": 2}']
        sent = posts(server)[0].body["response_format"]
        assert sent == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        with pytest.raises(EngineRefused, match="does not fit the schema: 'x' is not of type"):
            await engine.complete(ASKED, sampling=Sampling(), schema=schema)
        with pytest.raises(EngineRefused, match="no JSON"):
            await engine.complete(ASKED, sampling=Sampling(), schema=schema)
        with pytest.raises(Misuse, match="no JSON Schema"):
            await engine.complete(ASKED, sampling=Sampling(), schema={"type": "nonsense"})
        await engine.close()


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_a_busy_server_is_asked_again(status: int) -> None:
    busy = Reply(status, {"error": {"message": "later"}})
    with StubServer(answering(busy, busy, Reply(body=completion()))) as server:
        found = await ask(OpenAIEngine(server.url, first_wait=0.01))
    assert found.text == "hello"
    assert len(posts(server)) == 3


async def test_a_server_that_stays_busy_is_given_up() -> None:
    busy = Reply(503, {"error": {"message": "loading model"}})
    with StubServer(answering(busy)) as server:
        engine = OpenAIEngine(server.url, attempts=3, first_wait=0.01)
        with pytest.raises(
            EngineRefused, match=r"/v1/chat/completions answered 503: loading model"
        ):
            await ask(engine)
    assert len(posts(server)) == 3


@pytest.mark.parametrize("as_date", [False, True])
async def test_retry_after_is_honoured(as_date: bool) -> None:
    # A wait of our own would be far longer than what the server asks for.
    after = formatdate(time(), usegmt=True) if as_date else "0"
    busy = Reply(429, {"error": "slow down"}, {"Retry-After": after})
    with StubServer(answering(busy, busy, Reply(body=completion()))) as server:
        engine = OpenAIEngine(server.url, first_wait=1000)
        found = await asyncio.wait_for(ask(engine), 30)
    assert found.text == "hello"


async def test_a_retry_after_beyond_reason_is_refused_with_the_number() -> None:
    with (
        StubServer(answering(Reply(429, {"error": "no"}, {"Retry-After": "3600"}))) as server,
        pytest.raises(EngineRefused, match="asks to wait 3600 s"),
    ):
        await ask(OpenAIEngine(server.url))
    assert len(posts(server)) == 1


@pytest.mark.parametrize("broken", [None, Reply(body=completion(), cut=10)])
async def test_a_broken_connection_is_tried_again(broken: Reply | None) -> None:
    with StubServer(answering(broken, Reply(body=completion()))) as server:
        assert (await ask(OpenAIEngine(server.url, first_wait=0.01))).text == "hello"
    with StubServer(answering(broken)) as server:
        engine = OpenAIEngine(server.url, first_wait=0.01, attempts=2)
        with pytest.raises(EngineUnreachable, match="the connection broke"):
            await ask(engine)
    assert len(posts(server)) == 2


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(status: int) -> None:
    with StubServer(answering(Reply(body=completion()))) as elsewhere:
        away = Reply(status, headers={"Location": f"{elsewhere.url}/v1/chat/completions"})
        with (
            StubServer(answering(away)) as server,
            pytest.raises(EngineRefused, match=rf"redirects \({status}\) to {elsewhere.url}"),
        ):
            await ask(OpenAIEngine(server.url, api_key=KEY))
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=b"<html>hello</html>"),
        Reply(body=b"\xff\xfe\x00"),
        Reply(body=b"[]"),
        Reply(body=b"null"),
        Reply(body=b'{"choices": []}'),
        Reply(body=b'{"choices": [{"message": null}]}'),
        Reply(body=b'{"choices": [{"message": {"content": 7}}]}'),
        Reply(body=b'{"choices": [{"message": {"content": null}}]}'),
        Reply(body=b'{"choices": [{"message": {"content": "x"}, "logprobs": {"content": [1]}}]}'),
        Reply(body=b""),
        Reply(404, b"not here"),
        Reply(401, {"error": {"message": "bad key"}}),
    ],
)
async def test_garbage_is_refused(reply: Reply) -> None:
    with (
        StubServer(answering(reply)) as server,
        pytest.raises(EngineRefused, match=rf"{server.url}/v1/chat/completions answered"),
    ):
        await ask(OpenAIEngine(server.url))
    assert len(posts(server)) == 1


async def test_what_is_no_http_is_refused_or_unreachable() -> None:
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        engine = OpenAIEngine(f"http://127.0.0.1:{port}", "m", attempts=1)
        with pytest.raises(EngineRefused, match="answered no sound HTTP"):
            await ask(engine)


async def test_an_answer_without_end_is_refused() -> None:
    with (
        StubServer(answering(Reply(body=b"x" * (65 * 2**20)))) as server,
        pytest.raises(EngineRefused, match="more than 64 MiB"),
    ):
        await ask(OpenAIEngine(server.url))


async def test_a_slow_server_is_given_up_after_the_time_out() -> None:
    gate = threading.Event()

    def slow(request: Request) -> Reply:
        if request.path.endswith("/models"):
            return MODELS
        gate.wait(30)
        return Reply(body=completion())

    with StubServer(slow) as server:
        with pytest.raises(EngineUnreachable, match=r"no answer within 0.2 s"):
            await ask(OpenAIEngine(server.url, timeout=0.2))
        gate.set()
    assert len(posts(server)) == 1


async def test_nobody_there_says_what_happened_and_how_to_start_one() -> None:
    with StubServer(answering(Reply())) as server:
        url = server.url
    with pytest.raises(EngineUnreachable) as caught:
        await ask(OpenAIEngine(url))
    said = str(caught.value)
    port = url.rpartition(":")[2]
    assert f"{url}/v1/models" in said
    assert "refused" in said.lower() or "Connect call failed" in said
    assert f"vllm serve MODEL --port {port}" in said
    assert f"llama-server --model FILE.gguf --port {port}" in said


async def test_the_key_is_in_no_error_and_no_representation() -> None:
    echo = Reply(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}})
    away = Reply(302, headers={"Location": f"http://other.example/?key={KEY}"})
    for reply in (echo, away, Reply(500, KEY.encode()), None, Reply(body=KEY.encode())):
        with StubServer(answering(reply)) as server:
            engine = OpenAIEngine(server.url, api_key=KEY, attempts=1)
            with pytest.raises((EngineRefused, EngineUnreachable)) as caught:
                await ask(engine)
        error: BaseException | None = caught.value
        while error is not None:
            assert KEY not in f"{error} {error!r}"
            error = error.__cause__
        assert KEY not in f"{engine!r} {engine.name}"


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("{}", "/v1/chat/completions"),
        ("{}/", "/v1/chat/completions"),
        ("{}/v1", "/v1/chat/completions"),
        ("{}/v1/", "/v1/chat/completions"),
        ("{}/v1/chat/completions", "/v1/chat/completions"),
        ("{}/api/openai/v1", "/api/openai/v1/chat/completions"),
        ("{}/deployments/x?api-version=7", "/deployments/x/chat/completions?api-version=7"),
    ],
)
async def test_urls_as_people_write_them(base: str, path: str) -> None:
    with StubServer(answering(Reply(body=completion()))) as server:
        await ask(OpenAIEngine(base.format(server.url), "m"))
    assert posts(server)[0].raw_path == path


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://host", "http://", "http://[", "http://u:p@host"]
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(Misuse):
        OpenAIEngine(url)


def test_a_key_that_no_header_can_carry_is_refused_unshown() -> None:
    with pytest.raises(Misuse) as caught:
        OpenAIEngine("http://localhost", api_key="secret\r\nX-Evil: 1")
    assert "secret" not in str(caught.value)


async def test_a_parameter_the_server_does_not_take_is_left_out_from_then_on() -> None:
    strict = Reply(400, {"error": {"message": "Unsupported parameter: 'max_tokens'"}})
    stricter = Reply(
        422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "prompt_cache_key"]}]}
    )
    with StubServer(answering(strict, stricter, Reply(body=completion()))) as server:
        engine = OpenAIEngine(server.url)
        for _ in range(2):
            await engine.complete(ASKED, sampling=Sampling(cache_key="k", max_tokens=5))
        await engine.close()
    sent = [
        set(request.body) & {"max_tokens", "max_completion_tokens", "prompt_cache_key"}
        for request in posts(server)
    ]
    assert sent == [
        {"max_tokens", "prompt_cache_key"},
        {"max_completion_tokens", "prompt_cache_key"},
        {"max_completion_tokens"},
        {"max_completion_tokens"},
    ]


async def test_a_parameter_that_matters_is_never_left_out() -> None:
    strict = Reply(
        400, {"error": {"message": "unsupported parameter: 'response_format', 'messages'"}}
    )
    with (
        StubServer(answering(strict)) as server,
        pytest.raises(EngineRefused, match="answered 400"),
    ):
        await ask(OpenAIEngine(server.url))
    assert len(posts(server)) == 1


@pytest.mark.parametrize(
    ("entry", "props", "context"),
    [
        ({"id": "m", "max_model_len": 262144}, None, 262144),
        ({"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 2048}}, None, 2048),
        ({"id": "m", "owned_by": "llamacpp"}, {"default_generation_settings": {"n_ctx": 512}}, 512),
        ({"id": "m", "owned_by": "llamacpp"}, {"error": "off"}, DEFAULT_CONTEXT),
        ({"id": "m", "context_length": "many"}, None, DEFAULT_CONTEXT),
        ({"id": "m"}, None, DEFAULT_CONTEXT),
    ],
)
async def test_the_context_is_what_the_server_says(
    entry: dict[str, Any], props: dict[str, Any] | None, context: int
) -> None:
    def answer(request: Request) -> Reply:
        return Reply(body=props or {}) if request.path == "/props" else Reply(body=served(entry))

    with StubServer(answer) as server:
        engine = OpenAIEngine(server.url)
        await engine.discover()
        assert engine.context == context
        await engine.close()
        asked_first = OpenAIEngine(server.url)
        assert asked_first.context == context
        await asked_first.close()


async def test_the_context_of_a_server_that_is_away_is_the_default_and_asked_for_once() -> None:
    with StubServer(lambda _: Reply(500)) as server:
        engine = OpenAIEngine(server.url, "m")
        assert [engine.context, engine.context] == [DEFAULT_CONTEXT] * 2
        await engine.close()
    assert len(server.requests) == 1


async def test_several_models_and_none_named_is_misuse_that_lists_them() -> None:
    several = Reply(body=served({"id": "a"}, {"id": "b"}))
    with (
        StubServer(answering(Reply(), models=several)) as server,
        pytest.raises(Misuse, match=r"2 models; name one as .*#MODEL: a, b"),
    ):
        await ask(OpenAIEngine(server.url))


async def test_no_list_of_models_and_none_named_is_refused() -> None:
    with StubServer(answering(Reply(body=completion()), models=Reply(404))) as server:
        with pytest.raises(EngineRefused, match="no list of models; name one as"):
            await ask(OpenAIEngine(server.url))
        assert (await ask(OpenAIEngine(server.url, "m"))).text == "hello"


async def test_no_more_than_the_limit_are_under_way() -> None:
    now, most, lock = 0, 0, threading.Lock()

    def count(request: Request) -> Reply:
        nonlocal now, most
        if request.path.endswith("/models"):
            return MODELS
        with lock:
            now += 1
            most = max(most, now)
        sleep(0.02)
        with lock:
            now -= 1
        return Reply(body=completion())

    with StubServer(count) as server:
        engine = OpenAIEngine(server.url, concurrency=3)
        await asyncio.gather(*(engine.complete(ASKED, sampling=Sampling()) for _ in range(12)))
        await engine.close()
    assert most == 3
    assert len(posts(server)) == 12


async def test_cancelling_hangs_up() -> None:
    gate, there = threading.Event(), threading.Event()

    def wait(request: Request) -> Reply:
        if request.path.endswith("/models"):
            return MODELS
        there.set()
        gate.wait(30)
        return Reply(body=completion())

    with StubServer(wait) as server:
        engine = OpenAIEngine(server.url)
        task = asyncio.create_task(engine.complete(ASKED, sampling=Sampling()))
        await asyncio.to_thread(there.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        assert (await ask(engine)).text == "hello"


def test_one_engine_serves_several_event_loops_and_leaks_nothing() -> None:
    with StubServer(answering(Reply(body=completion()))) as server:
        engine = OpenAIEngine(server.url)
        for _ in range(3):
            found = asyncio.run(engine.complete(ASKED, sampling=Sampling()))
            assert found.text == "hello"
        assert len({request.headers["Host"] for request in server.requests}) == 1
        before = {thread.name for thread in threading.enumerate()}
        assert "lwm-http" in before
        # Nobody closes it: collecting the engine does, and warnings are errors here.
        del engine
        gc.collect()
        assert "lwm-http" not in {thread.name for thread in threading.enumerate()}


def test_an_engine_collected_on_its_own_thread_ends_that_thread() -> None:
    there, gate = threading.Event(), threading.Event()

    def wait(request: Request) -> Reply:
        there.set()
        gate.wait(30)
        return Reply(body=completion())

    async def give_up() -> None:
        task = asyncio.create_task(
            OpenAIEngine(server.url, "m").complete(ASKED, sampling=Sampling())
        )
        await asyncio.to_thread(there.wait, 30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with StubServer(wait) as server:
        asyncio.run(give_up())
        ours = [thread for thread in threading.enumerate() if thread.name == "lwm-http"]
        gc.collect()
        for thread in ours:
            thread.join(30)
            assert not thread.is_alive()
        gate.set()


def test_an_engine_nobody_closed_ends_with_the_program() -> None:
    with StubServer(answering(Reply(body=completion()))) as server:
        program = (
            "import asyncio\n"
            "from lwm_agents.engines.openai import OpenAIEngine\n"
            "from lwm_agents.values import Message, Sampling\n"
            f"engine = OpenAIEngine({server.url!r})\n"
            "asked = [Message(role='user', content='hi')]\n"
            "print(asyncio.run(engine.complete(asked, sampling=Sampling())).text)"
        )
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", program],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            cwd=Path(__file__).parents[2],
        )
    assert (done.stdout, done.stderr) == ("hello\n", "")


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        StubServer(answering(Reply(500))) as proxy,
        StubServer(answering(Reply(body=completion()))) as server,
    ):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert (await ask(OpenAIEngine(server.url))).text == "hello"
        assert proxy.requests == []
        named = OpenAIEngine(server.url, "m", proxy=proxy.url, attempts=1)
        assert not named.local
        with pytest.raises(EngineRefused):
            await ask(named)
        assert proxy.requests != []


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:8000", True),
        ("http://127.0.0.1", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:80", True),
        ("http://10.0.0.7", False),
        ("http://0.0.0.0", False),
        ("http://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("https://api.openai.com", False),
    ],
)
def test_only_loopback_is_local(url: str, local: bool) -> None:
    assert OpenAIEngine(url).local is local


async def test_a_real_llama_cpp_server(model_path: Path) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model_path)
    params.n_ctx, params.n_parallel, params.port, params.verbosity = 2048, 1, 0, -1
    params.api_keys = [KEY]
    server = xllamacpp.Server(params)
    url = server.listening_address
    with pytest.raises(EngineRefused, match="answered 401"):
        await ask(OpenAIEngine(url, "m", attempts=1))
    engine = OpenAIEngine(url, api_key=KEY)
    assert engine.context == 2048
    found = await engine.complete(
        ASKED, sampling=Sampling(max_tokens=8, logprobs=True, cache_key="k", seed=1)
    )
    assert found.text
    assert found.logprobs is not None
    assert len(found.logprobs) in (found.usage.completion, found.usage.completion - 1)
    again = await engine.complete(ASKED, sampling=Sampling(max_tokens=8, cache_key="k"))
    assert 0 < again.usage.cached < again.usage.prompt
    schema = {
        "type": "object",
        "properties": {"n": {"enum": [1, 2]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    held = await engine.complete(ASKED, sampling=Sampling(max_tokens=80), schema=schema)
    assert held.text.replace(" ", "").replace("\n", "") in ('{"n":1}', '{"n":2}')
    long = [Message(role="user", content="word " * 3000)]
    with pytest.raises(EngineRefused, match="exceeds the available context"):
        await engine.complete(long, sampling=Sampling())
    await engine.close()
