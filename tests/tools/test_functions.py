"""Python functions and LangChain tools as tools."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from pydantic import BaseModel, Field

from lwm_agents.errors import Misuse, PromiseError
from lwm_agents.places.place import RealPlace
from lwm_agents.tools import Tool, argument_errors, tool_from
from lwm_agents.values import Json, Observation, ToolSpec


@pytest.fixture
def place(tmp_path: Path) -> Iterator[RealPlace]:
    real = RealPlace(tmp_path, None, "live")
    yield real
    real.close()


class Address(BaseModel):
    city: str
    zip: str | None = None


def book(
    day: date,
    copy: Literal["a", "b"],
    seats: Annotated[int, Field(ge=1)] = 1,
    where: Address | None = None,
) -> dict[str, Json]:
    """Book seats.

    Fails on Sundays.

    Args:
        day: The day, as
            2026-01-31.
        copy: Which one.
        seats (int): How many.

    Returns:
        What was booked.
    """
    return {"day": day.isoformat(), "seats": seats, "city": where and where.city, "copy": copy}


async def run(made: Tool | None, place: RealPlace, **arguments: Json) -> Observation:
    assert made is not None
    assert argument_errors(made.spec, arguments) is None
    assert made.refusal(arguments) is None
    return await made.run(arguments, place)


async def test_a_function(place: RealPlace) -> None:
    spec, made = tool_from(book, effect="write")
    assert spec.name == "book"
    assert spec.description == "Book seats.\n\nFails on Sundays."
    properties = spec.input_schema["properties"]
    assert properties["day"] == {
        "description": "The day, as\n2026-01-31.",
        "format": "date",
        "type": "string",
    }
    assert properties["seats"]["minimum"] == 1
    assert properties["seats"]["description"] == "How many."
    assert properties["seats"]["default"] == 1
    assert properties["copy"]["enum"] == ["a", "b"]
    assert spec.input_schema["required"] == ["day", "copy"]
    assert spec.input_schema["additionalProperties"] is False
    assert spec.source_code is not None
    assert spec.source_code.startswith("def book(")
    assert (spec.annotations.read_only_hint, spec.annotations.destructive_hint) == (False, False)
    assert argument_errors(spec, {"day": "2026-01-31", "copy": "a", "seats": 0})
    seen = await run(made, place, day="2026-01-31", copy="a", where={"city": "Köln"})
    assert seen.text == '{"day": "2026-01-31", "seats": 1, "city": "Köln", "copy": "a"}'
    assert seen.structured["city"] == "Köln"
    assert seen.source == "executed"
    seen = await run(made, place, day="someday", copy="a")
    assert seen.is_error
    assert seen.text.startswith("Invalid arguments for book: `day`: ")


async def test_it_never_runs_in_a_copy(place: RealPlace) -> None:
    called: list[int] = []

    def note() -> None:
        called.append(1)

    _, made = tool_from(note)
    assert made is not None
    place.source = "rehearsed"
    with pytest.raises(PromiseError):
        await made.run({}, place)
    assert called == []


async def test_async_and_bound_and_partial(place: RealPlace) -> None:
    class Shop:
        async def price(self, name: str, /, *, currency: str = "EUR", **more: int) -> str:
            await asyncio.sleep(0)
            return f"{name} {currency} {more}"

        def __call__(self, count: int) -> int:
            return count + 1

    spec, made = tool_from(Shop().price)
    assert list(spec.input_schema["properties"]) == ["name", "currency"]
    assert (await run(made, place, name="tea", extra=5)).text == "tea EUR {'extra': 5}"
    spec, made = tool_from(Shop())
    assert spec.name == "Shop"
    assert (await run(made, place, count=1)).structured == 2
    spec, made = tool_from(functools.partial(book, copy="b"))
    assert (spec.name, spec.input_schema["required"]) == ("book", ["day"])
    assert (await run(made, place, day="2026-01-31")).structured["copy"] == "b"


async def test_what_a_function_gives(place: RealPlace) -> None:
    @dataclass
    class Point:
        x: int

    results: list[tuple[object, str, Json]] = [
        ("text", "text", None),
        ("", "", None),
        (None, "null", None),
        (True, "true", True),
        ([Point(1)], '[{"x": 1}]', [{"x": 1}]),
        (Address(city="é"), '{"city": "é", "zip": null}', {"city": "é", "zip": None}),
        (float("inf"), '"Infinity"', "Infinity"),
        (b"caf\xe9", "caf\ufffd", None),
    ]
    for result, text, structured in results:

        def give(result: object = result) -> object:
            return result

        _, made = tool_from(give)
        assert made is not None
        seen = await made.run({}, place)
        assert (seen.text, seen.structured, seen.is_error) == (text, structured, False)
    loop: list[Any] = []
    loop.append(loop)

    def endless() -> list[Any]:
        return loop

    assert (await run(tool_from(endless)[1], place)).text == '"[[...]]"'


async def test_what_a_function_raises_is_data(place: RealPlace) -> None:
    for error, text in (
        (TypeError("no"), "TypeError: no"),
        (KeyError("k"), "KeyError: 'k'"),
        (StopIteration(), "RuntimeError: the function raised StopIteration"),
        (SystemExit(3), "SystemExit: 3"),
        (TimeoutError(), "TimeoutError"),
    ):

        def fail(error: Any = error) -> None:
            raise error

        _, made = tool_from(fail)
        assert made is not None
        seen = await made.run({}, place)
        assert (seen.text, seen.is_error, seen.source) == (text, True, "executed")


async def test_a_sync_function_does_not_block_the_loop(place: RealPlace) -> None:
    released = threading.Event()

    def wait() -> str:
        return "released" if released.wait(30) else "blocked"

    task = asyncio.create_task(run(tool_from(wait)[1], place))
    await asyncio.sleep(0.05)
    released.set()
    assert (await task).text == "released"


def test_no_tool() -> None:
    def many(*names: str) -> None: ...

    def odd(value: threading.Lock) -> None: ...

    def unknown(value: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for thing, said in (
        (many, "takes \\*names"),
        (odd, "no JSON schema"),
        (unknown, "can't be read"),
        (lambda: 1, "needs a name"),
        (5, "not a tool"),
    ):
        with pytest.raises(Misuse, match=said):
            tool_from(thing)


def test_a_spec_alone_can_not_be_run() -> None:
    spec = ToolSpec(name="deploy", description="Deploy it.")
    assert tool_from(spec) == (spec, None)


class Search(BaseTool):
    name: str = "search"
    description: str = "Search for it."

    def _run(self, query: str) -> str:
        if query == "refused":
            raise ToolException("nothing to search")
        return f"found {query}"


async def test_langchain_tools(place: RealPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    # Would be sent to LangSmith, if these were not ignored.
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "http://127.0.0.1:9")

    @tool
    def add(first: int, second: int = 2) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": first + second}

    spec, made = tool_from(add, effect="read", domain="code")
    assert (spec.name, spec.description, spec.domain) == ("add", "Add two numbers.", "code")
    assert spec.input_schema["required"] == ["first"]
    assert spec.annotations.read_only_hint is True
    assert "first + second" in (spec.source_code or "")
    seen = await run(made, place, first=1)
    assert (seen.text, seen.structured) == ('{"sum": 3}', {"sum": 3})

    spec, made = tool_from(Search(handle_tool_error=True))
    assert (await run(made, place, query="x")).text == "found x"
    seen = await run(made, place, query="refused")
    assert (seen.text, seen.is_error) == ("nothing to search", True)
    seen = await run(tool_from(Search())[1], place, query="refused")
    assert (seen.text, seen.is_error) == ("ToolException: nothing to search", True)

    async def fetch(**arguments: Any) -> list[dict[str, str]]:
        return [{"type": "text", "text": f"got {arguments['url']}"}]

    schema = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
    remote = StructuredTool(
        name="fetch", description="Fetch it.", args_schema=schema, coroutine=fetch
    )
    spec, made = tool_from(remote)
    assert spec.input_schema == schema
    assert (await run(made, place, url="u")).text == "got u"
