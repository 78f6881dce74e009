"""Any Python function or LangChain tool as a tool of ours."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import sys
import textwrap
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pydantic
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticSerializationError, to_json

from lwm_agents.errors import Misuse, PromiseError
from lwm_agents.places.place import Place
from lwm_agents.places.threads import in_thread
from lwm_agents.tools.base import Tool
from lwm_agents.values import Domain, Effect, Json, Observation, ToolAnnotations, ToolSpec

Call = Callable[[dict[str, Json]], Awaitable[Observation]]
"""Runs a tool with arguments that conform to its schema."""

_ANNOTATIONS: Mapping[Effect | None, ToolAnnotations] = {
    None: ToolAnnotations(),
    "unknown": ToolAnnotations(),
    "read": ToolAnnotations(read_only_hint=True),
    "write": ToolAnnotations(read_only_hint=False, destructive_hint=False),
    "destroy": ToolAnnotations(read_only_hint=False, destructive_hint=True),
    "external": ToolAnnotations(read_only_hint=False, open_world_hint=True),
}


@dataclass(frozen=True)
class FunctionTool:
    """A tool whose code is the user's. It acts for real wherever it runs.

    So it runs in the real place only. `effect` is what its owner says a call can do.
    """

    spec: ToolSpec
    effect: Effect | None
    call: Call

    def refusal(self, arguments: Mapping[str, Json], root: str | None = None) -> str | None:  # noqa: ARG002
        """Return None: what the function refuses, it says when it is called."""
        return None

    async def run(self, arguments: Mapping[str, Json], place: Place) -> Observation:
        """Call the function. Raises PromiseError in a place that is not the real one."""
        if place.source != "executed":
            raise PromiseError(f"{self.spec.name} is Python code that would act for real")
        try:
            seen = await self.call(dict(arguments))
        except (Exception, SystemExit) as error:  # noqa: BLE001 (a user's tool may raise anything)
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            seen = Observation(text=text, source="executed", is_error=True)
        return seen


def tool_from(
    tool: object, *, effect: Effect | None = None, domain: Domain = "api"
) -> tuple[ToolSpec, Tool | None]:
    """Return the spec of a tool, and the tool itself where it can be run.

    `tool` is a Python function, sync or async, with type hints and perhaps a docstring in
    Google's style; a LangChain tool; or a ToolSpec, which can be predicted and never executed.
    Raises Misuse where no schema of its arguments can be made.
    """
    if isinstance(tool, ToolSpec):
        return tool, None
    built: FunctionTool
    if _is_langchain(tool):
        built = _from_langchain(tool, effect, domain)
    elif callable(tool):
        built = _from_function(tool, effect, domain)
    else:
        raise Misuse(
            f"not a tool: {tool!r}; give a Python function, a LangChain tool or a ToolSpec"
        )
    return built.spec, built


def _from_function(
    function: Callable[..., Any], effect: Effect | None, domain: Domain
) -> FunctionTool:
    code = _code_of(function)
    name = getattr(code, "__name__", type(function).__name__)
    if inspect.ismethod(code) and name == "__call__":
        name = type(function).__name__
    if not name.isidentifier():
        raise Misuse(f"a tool needs a name: {function!r} has none; write it with def")
    summary, described = _docstring(inspect.getdoc(code) or "")
    arguments = _Arguments(function, name, described)
    is_async = inspect.iscoroutinefunction(code)

    async def call(given: dict[str, Json]) -> Observation:
        try:
            bound = arguments.bind(given)
        except pydantic.ValidationError as error:
            return Observation(text=_wrong(name, error), source="executed", is_error=True)
        if is_async:
            return observation_of(await function(*bound.args, **bound.kwargs))
        result = await in_thread(lambda: function(*bound.args, **bound.kwargs))
        return observation_of(await result if inspect.isawaitable(result) else result)

    spec = ToolSpec(
        name=name,
        description=summary,
        input_schema=arguments.schema,
        annotations=_ANNOTATIONS[effect],
        source_code=_source_code(code),
        domain=domain,
    )
    return FunctionTool(spec, effect, call)


def _code_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function behind a partial one or an object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return typing.cast(Callable[..., Any], type(function).__call__.__get__(function))


class _Schema(GenerateJsonSchema):
    """JSON Schema without titles; a default that JSON can't say is left out, without a warning."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


class _Arguments:
    """The arguments of a function: their JSON Schema, and how to bind values to them.

    `schema` is strict about unknown names, unless the function takes `**kwargs`.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, described: Mapping[str, str]
    ) -> None:
        try:
            self._signature = inspect.signature(function)
            hints = typing.get_type_hints(_code_of(function), include_extras=True)
        except (NameError, TypeError, ValueError) as error:
            raise Misuse(f"the signature of {name} can't be read: {error}") from error
        fields: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        more = False
        for index, parameter in enumerate(self._signature.parameters.values()):
            if parameter.kind is parameter.VAR_KEYWORD:
                more = True
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                raise Misuse(
                    f"{name} takes *{parameter.name}: a tool's arguments have names; "
                    f"take a list instead"
                )
            # Any parameter's name must do, also one that pydantic's models keep to themselves.
            field = f"argument_{index}"
            self._names[field] = parameter.name
            about: dict[str, Any] = {"alias": parameter.name}
            if parameter.default is not parameter.empty:
                about["default"] = parameter.default
            if parameter.name in described:
                about["description"] = described[parameter.name]
            fields[field] = (hints.get(parameter.name, Any), pydantic.Field(**about))
        try:
            self._model: type[pydantic.BaseModel] = pydantic.create_model(
                name, __config__=pydantic.ConfigDict(extra="allow" if more else "forbid"), **fields
            )
            schema = self._model.model_json_schema(schema_generator=_Schema)
        except (pydantic.errors.PydanticUserError, TypeError) as error:
            raise Misuse(f"the arguments of {name} have no JSON schema: {error}") from error
        schema.pop("title", None)
        self.schema: JsonSchemaValue = {"properties": {}, **schema}

    def bind(self, given: Mapping[str, Json]) -> inspect.BoundArguments:
        """Return the values, converted to the hinted types. Raises pydantic.ValidationError."""
        model = self._model.model_validate(dict(given))
        values = {
            self._names[field]: getattr(model, field)
            for field in model.model_fields_set & self._names.keys()
        }
        values |= model.model_extra or {}
        bound = self._signature.bind_partial()
        for parameter in self._signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                bound.arguments[parameter.name] = model.model_extra or {}
            elif parameter.name in values:
                bound.arguments[parameter.name] = values[parameter.name]
            elif parameter.default is not parameter.empty:
                bound.arguments[parameter.name] = parameter.default
        return bound


def _wrong(name: str, error: pydantic.ValidationError) -> str:
    said = "; ".join(
        f"`{'.'.join(str(part) for part in problem['loc'])}`: {problem['msg']}"
        for problem in error.errors(include_url=False, include_context=False)
    )
    return f"Invalid arguments for {name}: {said}"


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return a docstring's prose and what it says of each argument."""
    import docstring_parser

    try:
        parsed = docstring_parser.parse(text, docstring_parser.DocstringStyle.GOOGLE)
    except docstring_parser.ParseError:
        return text, {}
    arguments = {one.arg_name: one.description for one in parsed.params if one.description}
    prose = (parsed.short_description, parsed.long_description)
    return "\n\n".join(part for part in prose if part), arguments


def _source_code(function: object) -> str | None:
    with contextlib.suppress(OSError, TypeError):
        return textwrap.dedent(inspect.getsource(inspect.unwrap(function)))  # type: ignore[arg-type]
    return None


def observation_of(result: object) -> Observation:
    """Return what a function gave as an observation: a text as it is, anything else as JSON."""
    if isinstance(result, str):
        return Observation(text=result, source="executed")
    if isinstance(result, bytes | bytearray):
        raw = bytes(result)
        text = raw.decode("utf-8", "replace")
        exact = text.encode() == raw
        return Observation(text=text, source="executed", raw=None if exact else raw)
    try:
        value = json.loads(to_json(result, fallback=repr, inf_nan_mode="strings"))
    except (PydanticSerializationError, ValueError, RecursionError):
        value = repr(result)
    text = json.dumps(value, ensure_ascii=False)
    return Observation(text=text, source="executed", structured=value)


def _is_langchain(tool: object) -> bool:
    # Nobody can hold such a tool without having imported its module, so we never have to.
    module = sys.modules.get("langchain_core.tools")
    return module is not None and isinstance(tool, module.BaseTool)


def _from_langchain(tool: Any, effect: Effect | None, domain: Domain) -> FunctionTool:
    name: str = tool.name
    shape = tool.tool_call_schema  # without the arguments that LangChain injects itself
    try:
        schema = shape if isinstance(shape, dict) else _model_schema(shape)
    except pydantic.errors.PydanticUserError as error:
        raise Misuse(f"the arguments of {name} have no JSON schema: {error}") from error
    schema = {key: value for key, value in schema.items() if key not in {"title", "description"}}

    async def call(given: dict[str, Json]) -> Observation:
        from langsmith.run_helpers import tracing_context

        request = {"type": "tool_call", "id": "call", "name": name, "args": given}
        with tracing_context(enabled=False):  # nothing is sent to a host nobody named
            answer = await tool.ainvoke(request)
        return _observation_of_message(answer)

    spec = ToolSpec(
        name=name,
        description=tool.description,
        input_schema={"type": "object", "properties": {}, **schema},
        annotations=_ANNOTATIONS[effect],
        source_code=_source_code(
            getattr(tool, "func", None) or getattr(tool, "coroutine", None) or type(tool)
        ),
        domain=domain,
    )
    return FunctionTool(spec, effect, call)


def _model_schema(model: Any) -> JsonSchemaValue:
    if hasattr(model, "model_json_schema"):
        return typing.cast(JsonSchemaValue, model.model_json_schema(schema_generator=_Schema))
    return typing.cast(JsonSchemaValue, model.schema())  # a model of pydantic's first version


def _observation_of_message(answer: Any) -> Observation:
    """Return a LangChain ToolMessage as an observation; what is no message, as a plain result."""
    if not hasattr(answer, "content"):
        return observation_of(answer)
    content = answer.content
    is_error = getattr(answer, "status", "success") == "error"
    if isinstance(content, str):
        structured = None
        with contextlib.suppress(ValueError):
            value = json.loads(content)
            structured = value if isinstance(value, dict | list) else None
        return Observation(
            text=content, source="executed", structured=structured, is_error=is_error
        )
    parts = [block if isinstance(block, str) else block.get("text", "") for block in content]
    return Observation(
        text="\n".join(part for part in parts if part),
        source="executed",
        structured=json.loads(to_json(content, fallback=repr)),
        is_error=is_error,
    )
