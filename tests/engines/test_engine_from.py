"""From what a user names to an engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gguf_files import gguf
from stub_server import Reply, StubServer, completion

from lwm_agents.engines import engine_from
from lwm_agents.engines.embedded import EmbeddedEngine
from lwm_agents.engines.openai import OpenAIEngine
from lwm_agents.errors import EngineRefused, Misuse
from lwm_agents.testing import ScriptedEngine
from lwm_agents.values import Message, Sampling

ASKED = [Message(role="user", content="hi")]


def test_an_engine_is_itself() -> None:
    engine = ScriptedEngine(["hi"])
    assert engine_from(engine) is engine


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1#Qwen/Qwen3:8b", "http://localhost:8000/v1#Qwen/Qwen3:8b"),
        (" https://host/api/v1#m ", "https://host/api/v1#m"),
    ],
)
def test_a_url_with_and_without_a_model(spec: str, name: str) -> None:
    engine = engine_from(spec, environ={})
    assert isinstance(engine, OpenAIEngine)
    assert engine.name == name


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.GGUF"
    path.write_bytes(gguf())
    engine = engine_from(str(path))
    assert isinstance(engine, EmbeddedEngine)
    assert engine.name == "tiny.GGUF"
    with pytest.raises(Misuse, match="no model file at"):
        engine_from("nowhere/model.gguf")


def test_a_pulled_model_and_one_that_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "org" / "name"
    folder.mkdir(parents=True)
    (folder / "name-Q8_0.gguf").write_bytes(gguf())
    for spec in ("org/name", "org/name:Q8_0"):
        assert engine_from(spec, models=tmp_path).name == "name-Q8_0.gguf"
    with pytest.raises(Misuse, match="lwm model pull org/other"):
        engine_from("org/other", models=tmp_path)


@pytest.mark.parametrize(
    "spec", ["", "gpt", "localhost:8000", "a/b/c", "ftp://x", "langchain:", "?"]
)
def test_anything_else_lists_the_four_forms(spec: str) -> None:
    with pytest.raises(Misuse) as caught:
        engine_from(spec)
    for form in ("http://localhost:8000/v1#MODEL", "langchain:PROVIDER:MODEL", ".gguf", "ORG/NAME"):
        assert form in str(caught.value)


@pytest.mark.parametrize("spec", ["http://", "http://[", "https://user:pass@host/v1"])
def test_urls_that_are_none(spec: str) -> None:
    with pytest.raises(Misuse):
        engine_from(spec, environ={})


async def test_the_key_goes_only_where_it_was_meant_to_go() -> None:
    with StubServer(lambda _: Reply(body=completion())) as server:
        for environ in ({"LWM_API_KEY": "ours"}, {"OPENAI_API_KEY": "theirs"}):
            engine = engine_from(f"{server.url}#m", environ=environ)
            await engine.complete(ASKED, sampling=Sampling())
            await engine.close()
    sent = [r.headers.get("Authorization") for r in server.requests if r.method == "POST"]
    assert sent == ["Bearer ours", None]


async def test_openai_gets_its_own_key_and_nobody_elses_is_shown() -> None:
    # The port is closed on loopback: what is sent there never arrives, the error says where to.
    engine = engine_from("https://api.openai.com/v1#m", environ={"OPENAI_API_KEY": "sk\u20ac"[:2]})
    assert not engine.local
    with pytest.raises(Misuse, match="no HTTP header can carry"):
        engine_from("https://api.openai.com/v1#m", environ={"OPENAI_API_KEY": "sk\u20ac"})
    engine_from("https://other.example/v1#m", environ={"OPENAI_API_KEY": "sk\u20ac"})


async def test_a_refused_key_is_an_engine_error() -> None:
    with StubServer(lambda _: Reply(401, {"error": {"message": "bad key"}})) as server:
        engine = engine_from(f"{server.url}#m", environ={})
        with pytest.raises(EngineRefused, match="bad key"):
            await engine.complete(ASKED, sampling=Sampling())
        await engine.close()


def test_importing_the_package_pulls_in_nothing_heavy() -> None:
    program = (
        "import sys, lwm_agents.engines\n"
        "heavy = {'xllamacpp', 'aiohttp', 'huggingface_hub', 'langchain_core', 'langsmith'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "lwm_agents.engines.engine_from('http://localhost', environ={})\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout == "[]\n['aiohttp']\n"
