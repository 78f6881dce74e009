"""Any LangChain chat model as an engine. Needs the extra: pip install 'lwm-agents[graphs]'."""

from __future__ import annotations

import json
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lwm_agents.engines.conforming import check_schema, conforming
from lwm_agents.errors import EngineError, EngineRefused, EngineUnreachable, Misuse
from lwm_agents.values import Completion, Json, Messages, Sampling, Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage

DEFAULT_CONTEXT = 32_768
"""Tokens taken to fit where the model has no profile that says."""

_EXTRA = "pip install 'lwm-agents[graphs]'"


class LangChainEngine:
    """A `BaseChatModel`, or the name of one: `provider:model`, as `init_chat_model` takes it.

    Sampling replaces the model's own fields of the same name (temperature, top_p, max_tokens, seed,
    logprobs) in a copy; a model without such a field keeps its own way. LangSmith's tracing
    variables are ignored unless `tracing` is true. `local` says that prompts stay on this machine,
    which no LangChain model tells by itself.

    Raises Misuse where LangChain or the provider's package is missing, with the command to install.
    """

    def __init__(
        self,
        model: BaseChatModel | str,
        *,
        context: int | None = None,
        local: bool = False,
        tracing: bool = False,
    ) -> None:
        self._model = _named(model) if isinstance(model, str) else _checked(model)
        self._spec = model if isinstance(model, str) else _spec_of(model)
        self._context = context
        self._local = local
        self._tracing = tracing

    def __repr__(self) -> str:
        return f"LangChainEngine({self._spec!r})"

    @property
    def name(self) -> str:
        """What the log calls it: `langchain:provider:model`."""
        return f"langchain:{self._spec}"

    @property
    def context(self) -> int:
        """How many tokens fit: as given, or as the model's profile says, or 32,768."""
        profile = getattr(self._model, "profile", None) or {}
        return self._context or profile.get("max_input_tokens") or DEFAULT_CONTEXT

    @property
    def local(self) -> bool:
        """Whether prompts stay on this machine, as far as the caller said so."""
        return self._local

    async def complete(
        self, messages: Messages, *, sampling: Sampling, schema: dict[str, Json] | None = None
    ) -> Completion:
        """Return one completion; with `schema`, its text is JSON that conforms to it.

        A model that can't be held to a schema is asked for JSON in words. Raises EngineUnreachable
        where the provider can't be reached, EngineRefused for anything else it raises.
        """
        if schema is not None:
            check_schema(schema)
        turns = [_turn(message.role, message.content) for message in messages]
        model = self._drawing(sampling)
        stop = list(sampling.stop) or None
        try:
            with _untraced() if not self._tracing else nullcontext():
                if schema is None:
                    return _completion(await model.ainvoke(turns, stop=stop))
                try:
                    held = model.with_structured_output(
                        {"title": "answer", "description": "The answer.", **schema},
                        include_raw=True,
                    )
                except NotImplementedError:
                    asked = [*turns[:-1], _turn("user", _in_words(turns[-1].text, schema))]
                    return conforming(_completion(await model.ainvoke(asked, stop=stop)), schema)
                return conforming(_structured(await held.ainvoke(turns)), schema)
        except EngineError:
            raise
        # A provider raises what its own package defines; here is the border where it gets our name.
        except Exception as error:
            kind = type(error).__name__
            lost = isinstance(error, OSError) or "Connect" in kind or "Timeout" in kind
            said = f"{self.name}: {kind}: {str(error)[:500]}"
            raise (EngineUnreachable if lost else EngineRefused)(said) from error

    async def close(self) -> None:
        """Do nothing: the model belongs to the caller."""

    def _drawing(self, sampling: Sampling) -> BaseChatModel:
        """Return a copy of the model that draws as asked, as far as it has fields to say so."""
        wanted: dict[str, Json] = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        }
        if sampling.seed is not None:
            wanted["seed"] = sampling.seed
        if sampling.logprobs:
            wanted["logprobs"] = True
        known = type(self._model).model_fields
        return self._model.model_copy(update={k: v for k, v in wanted.items() if k in known})


def _untraced() -> Any:
    from langsmith import tracing_context

    return tracing_context(enabled=False)


def _checked(model: object) -> BaseChatModel:
    try:
        from langchain_core.language_models import BaseChatModel
    except ImportError:
        raise Misuse(f"LangChain is not installed: {_EXTRA}") from None
    if not isinstance(model, BaseChatModel):
        raise Misuse(f"a LangChain engine takes a BaseChatModel or 'provider:model', not {model!r}")
    return model


def _named(spec: str) -> BaseChatModel:
    try:
        init_chat_model = import_module("langchain.chat_models").init_chat_model
    except ImportError:
        raise Misuse(f"LangChain is not installed: {_EXTRA}") from None
    try:
        return _checked(init_chat_model(spec))
    except ImportError as error:
        raise Misuse(f"langchain:{spec} needs a package more: {error}") from None
    except ValueError as error:
        raise Misuse(f"langchain:{spec}: {error}") from None


def _spec_of(model: BaseChatModel) -> str:
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    return f"{model._llm_type}:{name}" if name else model._llm_type


def _turn(role: str, content: str) -> BaseMessage:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

    kinds: dict[str, type[BaseMessage]] = {
        "system": SystemMessage,
        "user": HumanMessage,
        "assistant": AIMessage,
    }
    return kinds[role](content=content)


def _in_words(request: str, schema: dict[str, Json]) -> str:
    return (
        f"{request}\n\nAnswer with JSON alone, nothing before or after it. It must conform to this"
        f" JSON Schema:\n{json.dumps(schema)}"
    )


def _structured(result: Any) -> Completion:
    """Return the completion of `with_structured_output(..., include_raw=True)`."""
    completion = _completion(result["raw"])
    if result["parsed"] is None:
        return completion
    return completion.model_copy(update={"text": json.dumps(result["parsed"], ensure_ascii=False)})


def _completion(message: AIMessage) -> Completion:
    usage: dict[str, Any] = {**(message.usage_metadata or {})}
    details = usage.get("input_token_details") or {}
    about = message.response_metadata
    finish = about.get("finish_reason") or about.get("stop_reason") or "stop"
    tokens = (about.get("logprobs") or {}).get("content")
    reasoning = message.additional_kwargs.get("reasoning_content") or "".join(
        str(block.get("reasoning", ""))
        for block in message.content_blocks
        if block.get("type") == "reasoning"
    )
    return Completion(
        text=str(message.text),
        reasoning=str(reasoning),
        finish_reason={"max_tokens": "length", "end_turn": "stop"}.get(finish, finish),
        usage=Usage(
            prompt=usage.get("input_tokens") or 0,
            cached=details.get("cache_read") or 0,
            completion=usage.get("output_tokens") or 0,
        ),
        logprobs=None if tokens is None else tuple(t["logprob"] for t in tokens),
    )
