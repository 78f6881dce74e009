"""The user's config file and the project's.

The user's is `config.toml` in the user's config folder (`LWM_CONFIG` names another). A project's is
`lwm.toml` in the root: it comes with somebody's repository, so it may make a session stricter and
never send data elsewhere or allow more. See docs/config.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import platformdirs
from pydantic import Field

from lwm_agents.errors import ConfigError
from lwm_agents.toml_text import line_of, place, read_toml, suggestion
from lwm_agents.values import Mode, Value

PROJECT_FILE = "lwm.toml"

STRICTNESS: tuple[Mode, ...] = ("dry-run", "gated", "compare", "live")
"""From strict to loose. `compare` executes everything as `live` does, and also predicts."""

PROJECT_KEYS = frozenset({"mode", "policy", "max_tokens", "seed"})
"""What a project may set; each can only make a session stricter, or changes nothing outside it."""


class Config(Value):
    """What a session starts from.

    engine          which text model: a URL, `langchain:provider:model`, a `.gguf` path, a
                    Hugging Face id; None: the model that ships with the package, if one does
    store           where the log lies; None: the user's data folder
    policy          the user's own policy file
    project_policy  the policy file of the project, which can only make things stricter
    mode            what a session does without being told
    max_tokens      the longest answer of a model
    seed            of a model's sampling
    prompts         a folder of prompt files to use instead of our own
    calibration     what `lwm calibrate --out` wrote: how confidences are calibrated
    """

    engine: str | None = None
    store: Path | None = None
    policy: Path | None = None
    project_policy: Path | None = None
    mode: Mode = "dry-run"
    max_tokens: int = Field(default=1024, ge=1)
    seed: int | None = None
    prompts: Path | None = None
    calibration: Path | None = None


_KINDS: Mapping[str, str] = {
    "engine": "engine",
    "store": "path",
    "policy": "path",
    "mode": "mode",
    "max_tokens": "count",
    "seed": "number",
    "prompts": "path",
    "calibration": "path",
}


def config_path(environ: Mapping[str, str]) -> Path:
    """Return where the user's config file is, or would be."""
    if named := environ.get("LWM_CONFIG"):
        return Path(named).expanduser()
    return Path(platformdirs.user_config_dir("lwm-agents", appauthor=False)) / "config.toml"


def load_config(root: Path | str, environ: Mapping[str, str] | None = None) -> Config:
    """Return the user's config, made stricter by the project's where `root` has an `lwm.toml`.

    `environ` is the process's own unless given. `LWM_ENGINE` takes the place of `engine`. Paths in
    a file are relative to that file. Raises ConfigError naming the file, line and key; a file that
    isn't there is none, unless `LWM_CONFIG` names it.
    """
    environ = os.environ if environ is None else environ
    path = config_path(environ)
    settings: dict[str, Any] = {}
    if path.exists() or environ.get("LWM_CONFIG"):
        data, text = read_toml(path)
        settings = {key: _value(key, data[key], text, path, _KINDS) for key in data}
    if environ.get("LWM_ENGINE"):
        settings["engine"] = environ["LWM_ENGINE"]
    config = Config(**settings)
    project = Path(root) / PROJECT_FILE
    return _with_project(config, project, Path(root)) if project.is_file() else config


def _with_project(config: Config, path: Path, root: Path) -> Config:
    data, text = read_toml(path)
    changed: dict[str, Any] = {}
    for key, raw in data.items():
        where = place(path, line_of(text, key) or line_of(text, "", key))
        if key in _KINDS and key not in PROJECT_KEYS:
            raise ConfigError(
                f"{where}: a project can't set {key!r}; only your own config file can "
                f"({', '.join(sorted(PROJECT_KEYS))} can be set here)"
            )
        value = _value(key, raw, text, path, {k: _KINDS[k] for k in PROJECT_KEYS})
        if key == "mode" and STRICTNESS.index(value) > STRICTNESS.index(config.mode):
            raise ConfigError(
                f"{where}: a project can't loosen mode from {config.mode!r} to {value!r}; "
                "set it in your own config file or on the command line"
            )
        if key == "max_tokens" and value > config.max_tokens:
            raise ConfigError(
                f"{where}: a project can't raise max_tokens from {config.max_tokens} to {value}"
            )
        if key == "policy":
            if not value.resolve().is_relative_to(root.resolve()):
                raise ConfigError(f"{where}: a project's policy must lie in its root")
            changed["project_policy"] = value
        else:
            changed[key] = value
    return config.model_copy(update=changed)


def _value(key: str, value: Any, text: str, path: Path, kinds: Mapping[str, str]) -> Any:
    """Return a setting in its own type. Raises ConfigError."""
    where = place(path, line_of(text, key) or line_of(text, "", key))
    if key not in kinds:
        raise ConfigError(f"{where}: unknown key {key!r}. {suggestion(key, kinds)}")
    kind = kinds[key]
    is_text = isinstance(value, str) and bool(value) and "\0" not in value
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if kind == "mode" and not (is_text and value in get_args(Mode)):
        raise ConfigError(f"{where}: mode must be one of {', '.join(STRICTNESS)}, not {value!r}")
    if kind == "count" and not (is_number and value >= 1):
        raise ConfigError(f"{where}: {key} must be a whole number, 1 or more, not {value!r}")
    if kind == "number" and not is_number:
        raise ConfigError(f"{where}: {key} must be a whole number, not {value!r}")
    if kind in ("engine", "text", "path") and not is_text:
        raise ConfigError(f"{where}: {key} must be a text that is not empty, not {value!r}")
    if kind == "engine" and value.endswith(".gguf"):
        return str(path.parent / Path(value).expanduser())
    if kind == "path":
        return path.parent / Path(value).expanduser()
    return value
