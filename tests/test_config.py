"""The user's config file, the project's, and what the project may not do."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from lwm_agents.config import Config, config_path, load_config
from lwm_agents.errors import ConfigError

DOCS = Path(__file__).parent.parent / "docs"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"LWM_CONFIG": str(write(tmp_path / "user" / "config.toml", ""))}


def user(environ: dict[str, str], text: str) -> None:
    write(Path(environ["LWM_CONFIG"]), text)


def test_nothing_set_is_the_strictest_mode(root: Path, environ: dict[str, str]) -> None:
    assert load_config(root, environ) == Config()
    assert Config().mode == "dry-run"


def test_the_users_file_is_read_and_paths_are_relative_to_it(
    root: Path, environ: dict[str, str]
) -> None:
    user(
        environ,
        'engine = "m.gguf"\nmode = "live"\nstore = "log.db"\npolicy = "/p.toml"\nseed = 0\n',
    )
    config = load_config(root, environ)
    folder = Path(environ["LWM_CONFIG"]).parent
    assert (config.engine, config.mode, config.seed) == (str(folder / "m.gguf"), "live", 0)
    assert (config.store, config.policy) == (folder / "log.db", Path("/p.toml"))


def test_the_environment_names_the_engine_before_the_file(
    root: Path, environ: dict[str, str]
) -> None:
    user(environ, 'engine = "a/b"')
    assert load_config(root, environ | {"LWM_ENGINE": "b.gguf"}).engine == "b.gguf"
    assert load_config(root, environ | {"LWM_ENGINE": ""}).engine == "a/b"


def test_without_lwm_config_the_users_config_folder_is_used() -> None:
    path = config_path({})
    assert path.name == "config.toml"
    assert "lwm-agents" in path.parts


def test_a_named_file_must_exist(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        load_config(root, {"LWM_CONFIG": str(tmp_path / "missing.toml")})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('\nengin = "x"', r"config.toml:2: unknown key 'engin'. did you mean 'engine'\?"),
        ("engine = 3", "config.toml:1: engine must be a text"),
        ('engine = ""', "engine must be a text"),
        ('mode = "dry"', "mode must be one of dry-run, gated, compare, live, not 'dry'"),
        ("mode = true", "mode must be one of"),
        ("max_tokens = 0", "max_tokens must be a whole number, 1 or more"),
        ("max_tokens = true", "max_tokens must be a whole number"),
        ("max_tokens = 1.5", "max_tokens must be a whole number"),
        ('seed = "1"', "seed must be a whole number"),
        ("[engine]\nx = 1", "config.toml:1: engine must be a text"),
        ("project_policy = 'x'", "unknown key 'project_policy'"),
        ("engine = ", "config.toml: not valid TOML"),
        ("\nengine = a\n", "not valid TOML.*line 2"),
        ("store = 'a\\u0000'", None),
    ],
)
def test_a_mistake_names_file_line_and_key(
    root: Path, environ: dict[str, str], text: str, says: str | None
) -> None:
    user(environ, text)
    if says is None:  # a backslash in single quotes is just that in TOML
        assert load_config(root, environ).store is not None
        return
    with pytest.raises(ConfigError, match=says):
        load_config(root, environ)


def test_a_file_that_is_no_text_is_refused(root: Path, environ: dict[str, str]) -> None:
    Path(environ["LWM_CONFIG"]).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(root, environ)


def test_a_project_can_be_stricter(root: Path, environ: dict[str, str]) -> None:
    user(environ, 'mode = "live"\nmax_tokens = 500\npolicy = "own.toml"')
    write(root / "lwm.toml", 'mode = "gated"\nmax_tokens = 100\nseed = 7\npolicy = "strict.toml"')
    config = load_config(root, environ)
    assert (config.mode, config.max_tokens, config.seed) == ("gated", 100, 7)
    assert config.policy == Path(environ["LWM_CONFIG"]).parent / "own.toml"
    assert config.project_policy == root / "strict.toml"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('mode = "live"', "lwm.toml:1: a project can't loosen mode from 'gated' to 'live'"),
        ('mode = "compare"', "can't loosen mode"),
        ('engine = "http://evil.example/v1"', "a project can't set 'engine'"),
        ('engine = "model.gguf"', "a project can't set 'engine'"),
        ('\nstore = "log.db"', "lwm.toml:2: a project can't set 'store'"),
        ('prompts = "prompts"', "a project can't set 'prompts'"),
        ("max_tokens = 100000", "can't raise max_tokens"),
        ('policy = "../own.toml"', "must lie in its root"),
        ('policy = "/etc/policy.toml"', "must lie in its root"),
        ('project_policy = "x"', "unknown key 'project_policy'"),
        ('modes = "gated"', "did you mean 'mode'"),
    ],
)
def test_a_project_can_not_loosen_or_send_elsewhere(
    root: Path, environ: dict[str, str], text: str, says: str
) -> None:
    user(environ, 'mode = "gated"')
    write(root / "lwm.toml", text)
    with pytest.raises(ConfigError, match=re.escape(says)):
        load_config(root, environ)


def test_a_projects_policy_may_not_be_a_link_out_of_its_root(
    root: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    write(tmp_path / "outside.toml", "[caps]\ncalls = 1")
    (root / "policy.toml").symlink_to(tmp_path / "outside.toml")
    write(root / "lwm.toml", 'policy = "policy.toml"')
    with pytest.raises(ConfigError, match="must lie in its root"):
        load_config(root, environ)


def test_a_config_is_frozen() -> None:
    with pytest.raises(ValidationError):
        Config().mode = "live"


def test_every_toml_block_in_the_docs_is_a_config(tmp_path: Path, root: Path) -> None:
    text = (DOCS / "config.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, re.S)
    assert len(blocks) >= 2
    environ = {"LWM_CONFIG": str(tmp_path / "config.toml")}
    for block in blocks:
        tomllib.loads(block)
        if "lwm.toml" in block.splitlines()[0]:
            write(tmp_path / "config.toml", 'mode = "live"')
            write(root / "lwm.toml", block)
        else:
            write(tmp_path / "config.toml", block)
            (root / "lwm.toml").unlink(missing_ok=True)
        assert load_config(root, environ) != Config()


def test_the_docs_name_every_key() -> None:
    text = (DOCS / "config.md").read_text(encoding="utf-8")
    for key in Config.model_fields.keys() - {"project_policy"}:
        assert f"`{key}`" in text
