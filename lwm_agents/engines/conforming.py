"""JSON answers held against the schema that was asked for."""

from __future__ import annotations

import json
import re

from jsonschema import SchemaError, ValidationError
from jsonschema.validators import validator_for

from lwm_agents.errors import EngineRefused, Misuse
from lwm_agents.values import Completion, Json

_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)


def check_schema(schema: dict[str, Json]) -> None:
    """Raise Misuse where the schema itself is not a JSON Schema."""
    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        raise Misuse(f"this is no JSON Schema: {error.message} (at {error.json_path})") from None


def conforming(completion: Completion, schema: dict[str, Json]) -> Completion:
    """Return the completion with its text bare JSON that conforms to the schema.

    A Markdown fence around the whole answer is taken off. Raises EngineRefused where the text is
    cut, is no JSON, or does not conform.
    """
    fenced = _FENCE.match(completion.text)
    text = fenced.group(1) if fenced else completion.text
    try:
        validator_for(schema)(schema).validate(json.loads(text))
    except ValueError as error:
        cut = " (cut at max_tokens)" if completion.finish_reason == "length" else ""
        raise EngineRefused(f"the answer is no JSON{cut}: {error}: {text[:200]!r}") from None
    except ValidationError as error:
        raise EngineRefused(
            f"the answer does not fit the schema: {error.message[:200]} (at {error.json_path})"
        ) from None
    return completion if text == completion.text else completion.model_copy(update={"text": text})
