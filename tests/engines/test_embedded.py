"""llama.cpp in process: wrong files without a model, everything else with the real one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from gguf_files import gguf

from lwm_agents.engines.base import Engine
from lwm_agents.engines.embedded import EmbeddedEngine, loops
from lwm_agents.errors import EngineRefused, EngineUnreachable, Misuse
from lwm_agents.values import Completion, Message, Sampling

ASKED = [Message(role="system", content="You are a shell."), Message(role="user", content="$ ls")]
SCHEMA = {
    "type": "object",
    "properties": {"exit_code": {"type": "integer"}, "ok": {"type": "boolean"}},
    "required": ["exit_code", "ok"],
    "additionalProperties": False,
}


def test_wrong_files_are_misuse_when_the_engine_is_made(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"no model file at .*lwm model list"):
        EmbeddedEngine(tmp_path / "missing.gguf")
    text = tmp_path / "text.gguf"
    text.write_text("hello")
    with pytest.raises(Misuse, match="is no GGUF file"):
        EmbeddedEngine(text)
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(gguf()[:-1])
    with pytest.raises(Misuse, match="cut short"):
        EmbeddedEngine(cut)


@pytest.mark.parametrize(
    ("text", "looping"),
    [
        ("", False),
        ("y\n" * 100, False),  # what `yes | head -100` prints
        ("y\n" * 250, True),
        ("a start, then " + "I am sorry. I can not do that. " * 20, True),
        ("I am sorry. " * 60 + "Now something else.", False),
        ("".join(f"line {number}\n" for number in range(500)), False),
        (("0123456789" * 20 + "x") * 7, False),
    ],
)
def test_an_answer_that_goes_round_in_circles_is_noticed(text: str, looping: bool) -> None:
    assert loops(text) is looping


@pytest.mark.parametrize("wrong", [{"context": 0}, {"slots": 0}, {"threads": 0}])
def test_wrong_numbers_are_misuse(tmp_path: Path, wrong: dict[str, int]) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf())
    with pytest.raises(Misuse, match="context >= 256"):
        EmbeddedEngine(path, **wrong)  # type: ignore[arg-type]


async def test_what_llama_cpp_cannot_load_is_an_error_and_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "hollow.gguf"
    path.write_bytes(gguf())
    engine = EmbeddedEngine(path)
    assert engine.context == 1024  # what it was trained for, less than the default
    with pytest.raises(EngineUnreachable, match=r"llama.cpp can't load .*hollow.gguf"):
        await engine.complete(ASKED, sampling=Sampling())
    await engine.close()


def test_a_real_model_cut_anywhere_is_noticed(model_path: Path, tmp_path: Path) -> None:
    size = model_path.stat().st_size
    cut = tmp_path / "cut.gguf"
    with model_path.open("rb") as file:
        head = file.read(8 << 20)
    cut.write_bytes(head)
    for length in (size - 1, size // 2, 8 << 20, 5_000_000, 1_000_000, 1000, 30):
        os.truncate(cut, length)  # longer than written: the rest reads as zeros
        with pytest.raises(Misuse, match="cut short"):
            EmbeddedEngine(cut)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def engine(model_path: Path) -> AsyncIterator[EmbeddedEngine]:
    engine = EmbeddedEngine(model_path, context=2048, slots=3)
    yield engine
    await engine.close()


@pytest.mark.asyncio(loop_scope="module")
class TestRealModel:
    async def test_answers_with_logprobs_and_usage(self, engine: EmbeddedEngine) -> None:
        assert isinstance(engine, Engine)
        assert engine.local
        found = await engine.complete(ASKED, sampling=Sampling(max_tokens=6, logprobs=True))
        assert found.text
        assert found.finish_reason == "length"
        assert found.usage.completion == 6
        assert found.logprobs is not None
        assert len(found.logprobs) == 6
        assert all(value <= 0 for value in found.logprobs)

    async def test_temperature_zero_repeats_itself(self, engine: EmbeddedEngine) -> None:
        first, again = [
            await engine.complete(ASKED, sampling=Sampling(max_tokens=6, cache_key="same", seed=1))
            for _ in range(2)
        ]
        assert first.text == again.text
        assert again.usage.cached >= again.usage.prompt - 1

    async def test_stops_where_told(self, engine: EmbeddedEngine) -> None:
        asked = [Message(role="user", content="Count from 1 to 9, with blanks between.")]
        found = await engine.complete(asked, sampling=Sampling(max_tokens=40, stop=("4",)))
        assert "4" not in found.text
        assert found.finish_reason == "stop"

    async def test_a_schema_binds_the_answer(self, engine: EmbeddedEngine) -> None:
        found = await engine.complete(ASKED, sampling=Sampling(max_tokens=60), schema=SCHEMA)
        answer = json.loads(found.text)
        assert set(answer) == {"exit_code", "ok"}
        assert type(answer["ok"]) is bool

    async def test_json_that_is_cut_says_so(self, engine: EmbeddedEngine) -> None:
        with pytest.raises(EngineRefused, match=r"no JSON \(cut at max_tokens\)"):
            await engine.complete(ASKED, sampling=Sampling(max_tokens=2), schema=SCHEMA)

    async def test_a_wrong_schema_is_misuse(self, engine: EmbeddedEngine) -> None:
        with pytest.raises(Misuse, match="no JSON Schema"):
            await engine.complete(ASKED, sampling=Sampling(), schema={"type": "nonsense"})

    async def test_a_prompt_that_does_not_fit_says_by_how_much(
        self, engine: EmbeddedEngine
    ) -> None:
        asked = [Message(role="user", content="word " * 3000)]
        with pytest.raises(
            EngineRefused, match=r"prompt has 30\d\d tokens and the context holds 2048"
        ):
            await engine.complete(asked, sampling=Sampling())

    async def test_parallel_conversations_each_keep_their_prefix(
        self, engine: EmbeddedEngine
    ) -> None:
        histories = {
            key: [
                Message(role="system", content="You are a shell on a Linux machine. " * 8),
                Message(role="user", content=f"$ cat {key}.txt"),
            ]
            for key in ("a", "b", "same")
        }

        async def turn(key: str) -> Completion:
            found = await engine.complete(
                histories[key], sampling=Sampling(max_tokens=8, cache_key=key)
            )
            histories[key] += [
                Message(role="assistant", content=found.text),
                Message(role="user", content=f"$ wc -l {key}.txt"),
            ]
            return found

        for number in range(3):
            found = await asyncio.gather(*(turn(key) for key in histories))
            if number:
                for completion in found:
                    # The last answer and question, at most: nothing of the turns before.
                    assert completion.usage.prompt - completion.usage.cached <= 40

    async def test_cancelling_frees_the_slot(self, engine: EmbeddedEngine) -> None:
        asked = [Message(role="user", content="Write a very long story.")]
        tasks = [
            asyncio.create_task(engine.complete(asked, sampling=Sampling(max_tokens=1500)))
            for _ in range(6)  # more than there are slots: some are running, some wait
        ]
        await asyncio.sleep(0.5)
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(error) for error in found] == [asyncio.CancelledError] * 6
        answer = await asyncio.wait_for(
            engine.complete(ASKED, sampling=Sampling(max_tokens=2)), timeout=120
        )
        assert answer.usage.completion == 2

    async def test_closing_ends_what_runs_and_a_later_call_loads_again(
        self, engine: EmbeddedEngine
    ) -> None:
        asked = [Message(role="user", content="Write a very long story.")]
        task = asyncio.create_task(engine.complete(asked, sampling=Sampling(max_tokens=1500)))
        await asyncio.sleep(0.5)
        await engine.close()
        with pytest.raises(EngineRefused, match="stopped before its answer was complete"):
            await task
        await engine.close()
        answer = await engine.complete(ASKED, sampling=Sampling(max_tokens=2))
        assert answer.usage.completion == 2


def test_nothing_but_the_answer_reaches_stdout(model_path: Path) -> None:
    program = f"""
import asyncio
from lwm_agents.engines import engine_from
from lwm_agents.values import Message, Sampling
said = []
async def main():
    engine = engine_from({str(model_path)!r}, on_load=said.append)
    asked = [Message(role="user", content="hi")]
    found = await engine.complete(asked, sampling=Sampling(max_tokens=2))
    await engine.close()
    print("tokens", found.usage.completion)
asyncio.run(main())
assert len(said) == 2 and said[0].startswith("loading ") and " is ready after " in said[1], said
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout == "tokens 2\n"
    assert done.stderr == ""
