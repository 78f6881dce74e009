"""LangChain chat models as engines, with LangChain's own fake models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ConfigDict, Field
from stub_server import Reply, StubServer

pytest.importorskip("langchain_core")

from langchain_core.language_models import BaseChatModel, FakeMessagesListChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from lwm_agents.engines.base import Engine
from lwm_agents.engines.langchain import DEFAULT_CONTEXT, LangChainEngine
from lwm_agents.errors import EngineRefused, EngineUnreachable, Misuse
from lwm_agents.values import Message, Sampling

ASKED = [
    Message(role="system", content="You are a shell."),
    Message(role="user", content="ls"),
    Message(role="assistant", content="a.txt"),
    Message(role="user", content="pwd"),
]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Recording(BaseChatModel):
    """Keeps what it is asked, and how it would draw; answers with one message, or raises."""

    temperature: float = 1.0
    max_tokens: int = 10
    answer: AIMessage = AIMessage(content="ok")
    failure: Exception | None = None
    asked: list[Any] = Field(default_factory=list)

    model_config = ConfigDict(arbitrary_types_allowed=True)

    @property
    def _llm_type(self) -> str:
        return "recording"

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, *_: Any, **__: Any
    ) -> ChatResult:
        self.asked.append((messages, stop, self.temperature, self.max_tokens))
        if self.failure is not None:
            raise self.failure
        return ChatResult(generations=[ChatGeneration(message=self.answer)])


async def test_asks_with_the_turns_and_the_sampling_given() -> None:
    model = Recording()
    engine = LangChainEngine(model)
    assert isinstance(engine, Engine)
    found = await engine.complete(
        ASKED, sampling=Sampling(temperature=0.25, max_tokens=99, stop=("$",), seed=1)
    )
    messages, stop, temperature, tokens = model.asked[0]
    assert [(m.type, m.content) for m in messages] == [
        ("system", "You are a shell."),
        ("human", "ls"),
        ("ai", "a.txt"),
        ("human", "pwd"),
    ]
    assert (found.text, stop, temperature, tokens) == ("ok", ["$"], 0.25, 99)
    assert (model.temperature, model.max_tokens) == (1.0, 10)  # the caller's model is as it was


async def test_reads_usage_reasoning_logprobs_and_why_it_ended() -> None:
    answer = AIMessage(
        content=[
            {"type": "reasoning", "reasoning": "Let me see."},
            {"type": "text", "text": "/home"},
        ],
        usage_metadata={
            "input_tokens": 9,
            "output_tokens": 3,
            "total_tokens": 12,
            "input_token_details": {"cache_read": 5},
        },
        response_metadata={
            "stop_reason": "max_tokens",
            "logprobs": {"content": [{"logprob": -0.5}]},
        },
    )
    found = await LangChainEngine(Recording(answer=answer)).complete(ASKED, sampling=Sampling())
    assert (found.text, found.reasoning, found.finish_reason) == ("/home", "Let me see.", "length")
    assert found.usage.model_dump() == {"prompt": 9, "cached": 5, "completion": 3}
    assert found.logprobs == (-0.5,)


async def test_langchains_own_fake_models() -> None:
    for model in (
        FakeListChatModel(responses=["one", "two"]),
        FakeMessagesListChatModel(responses=[AIMessage("one"), AIMessage("two")]),
    ):
        engine = LangChainEngine(model)
        found = [(await engine.complete(ASKED, sampling=Sampling())).text for _ in range(1)]
        assert found == ["one"]
        assert engine.context == DEFAULT_CONTEXT
        assert not engine.local
        await engine.close()


async def test_a_model_without_structured_output_is_asked_in_words() -> None:
    model = Recording(answer=AIMessage('```json\n{"n": 3}\n```'))
    found = await LangChainEngine(model).complete(ASKED, sampling=Sampling(), schema=SCHEMA)
    assert found.text == '{"n": 3}'
    assert '"required": ["n"]' in model.asked[0][0][-1].content
    wrong = Recording(answer=AIMessage('{"n": "three"}'))
    with pytest.raises(EngineRefused, match="does not fit the schema"):
        await LangChainEngine(wrong).complete(ASKED, sampling=Sampling(), schema=SCHEMA)
    with pytest.raises(Misuse, match="no JSON Schema"):
        await LangChainEngine(model).complete(ASKED, sampling=Sampling(), schema={"type": "x"})


class ToolCalling(Recording):
    """Answers through a tool call, as models with structured output do."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


async def test_a_model_with_structured_output_is_held_to_the_schema() -> None:
    def calling(arguments: dict[str, Any]) -> ToolCalling:
        call = {"name": "answer", "args": arguments, "id": "1", "type": "tool_call"}
        return ToolCalling(answer=AIMessage("", tool_calls=[call]))

    found = await LangChainEngine(calling({"n": 4})).complete(
        ASKED, sampling=Sampling(), schema=SCHEMA
    )
    assert found.text == '{"n": 4}'
    with pytest.raises(EngineRefused, match="does not fit the schema"):
        await LangChainEngine(calling({"n": "x"})).complete(
            ASKED, sampling=Sampling(), schema=SCHEMA
        )


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (ConnectionRefusedError("nobody there"), EngineUnreachable),
        (TimeoutError("too slow"), EngineUnreachable),
        (ValueError("bad request"), EngineRefused),
        (RuntimeError("overloaded"), EngineRefused),
    ],
)
async def test_what_a_provider_raises_becomes_ours(
    failure: Exception, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=f"langchain:recording: .*{failure}"):
        await LangChainEngine(Recording(failure=failure)).complete(ASKED, sampling=Sampling())


def test_names_that_lead_nowhere_are_misuse() -> None:
    with pytest.raises(Misuse):
        LangChainEngine("no_such_provider:model")
    with pytest.raises(Misuse, match="takes a BaseChatModel"):
        LangChainEngine(42)  # type: ignore[arg-type]


def test_without_langchain_the_extra_is_named() -> None:
    program = (
        "import sys\n"
        "sys.modules['langchain_core'] = sys.modules['langchain'] = None\n"
        "from lwm_agents.engines import engine_from\n"
        "from lwm_agents.engines.langchain import LangChainEngine\n"
        "from lwm_agents.errors import Misuse\n"
        "for make in (lambda: engine_from('langchain:openai:gpt'), lambda: LangChainEngine(1)):\n"
        "    try: make()\n"
        "    except Misuse as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.count("pip install 'lwm-agents[graphs]'") == 2


TRACED = """
import asyncio, sys
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.tracers.langchain import wait_for_all_tracers
from lwm_agents.engines.langchain import LangChainEngine
from lwm_agents.values import Message, Sampling
engine = LangChainEngine(FakeListChatModel(responses=["hi"]), tracing=sys.argv[1] == "yes")
asyncio.run(engine.complete([Message(role="user", content="secret")], sampling=Sampling()))
wait_for_all_tracers()
"""


@pytest.mark.parametrize("tracing", ["no", "yes"])
def test_langsmith_is_told_nothing_unless_asked(tracing: str) -> None:
    with StubServer(lambda _: Reply(202)) as server:
        environment = {
            "LANGSMITH_TRACING": "true",
            "LANGCHAIN_TRACING_V2": "true",
            "LANGSMITH_ENDPOINT": server.url,
            "LANGSMITH_API_KEY": "key",
            "PATH": "",
        }
        subprocess.run(
            [sys.executable, "-c", TRACED, tracing],
            check=True,
            capture_output=True,
            env=environment,
            cwd=Path(__file__).parents[2],
        )
    assert bool(server.requests) is (tracing == "yes")
