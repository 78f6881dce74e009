"""Text models behind one method: a server, a file run in process, LangChain, or a script.

`engine_from` makes one from how a user names it. Nothing heavy is imported before that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urlsplit

from lwm_agents.engines.base import Engine
from lwm_agents.errors import Misuse

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Engine", "engine_from"]

FORMS = """\
  http://localhost:8000/v1#MODEL    an OpenAI-compatible server (vLLM, SGLang, llama.cpp, …)
  langchain:PROVIDER:MODEL          any chat model LangChain knows
  path/to/FILE.gguf                 a model file, run in this process
  ORG/NAME or ORG/NAME:QUANT        a model of the Hugging Face hub, after `lwm model pull`"""


def engine_from(
    spec: str | Engine,
    *,
    environ: Mapping[str, str] | None = None,
    models: Path | None = None,
    on_load: Callable[[str], None] | None = None,
) -> Engine:
    """Return the engine that a spec names; an engine is returned as it is.

    The forms are those of FORMS; a URL's `#MODEL` may be left out where the server has one model.
    A server's key is LWM_API_KEY of `environ` (default: the process's). OPENAI_API_KEY is used for
    api.openai.com alone: a key goes to nobody it was not meant for. `models` is the folder that
    pulled models lie in. `on_load` is told in words when an embedded model is being loaded.

    Raises Misuse for anything else, with the forms or the command that helps. No engine is called
    and no model loaded here.
    """
    if not isinstance(spec, str):
        return spec
    spec = spec.strip()
    if spec.startswith(("http://", "https://")):
        return _server(spec, os.environ if environ is None else environ)
    if spec.startswith("langchain:"):
        return _langchain(spec.removeprefix("langchain:"))
    if spec.lower().endswith(".gguf"):
        return _embedded(Path(spec), on_load)
    from lwm_agents.models import find_model, parse_id

    if parse_id(spec) is not None:
        return _embedded(find_model(spec, models), on_load)
    raise Misuse(f"{spec!r} names no engine. It is one of:\n{FORMS}")


def _server(spec: str, environ: Mapping[str, str]) -> Engine:
    from lwm_agents.engines.openai import OpenAIEngine

    try:
        url, model = urldefrag(spec)
        host = urlsplit(url).hostname
    except ValueError as error:
        raise Misuse(f"{spec!r} is no URL: {error}") from None
    key = environ.get("LWM_API_KEY")
    if not key and host == "api.openai.com":
        key = environ.get("OPENAI_API_KEY")
    return OpenAIEngine(url, model or None, key or None)


def _langchain(name: str) -> Engine:
    from lwm_agents.engines.langchain import LangChainEngine

    if not name:
        raise Misuse(f"langchain: needs a provider and a model. An engine is one of:\n{FORMS}")
    return LangChainEngine(name)


def _embedded(path: Path, on_load: Callable[[str], None] | None) -> Engine:
    from lwm_agents.engines.embedded import EmbeddedEngine

    return EmbeddedEngine(path, on_load=on_load)
