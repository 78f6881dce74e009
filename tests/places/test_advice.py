"""What is said to whoever can't make namespaces: read from a /proc made for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lwm_agents.places.advice import advice

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")


def proc(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / "proc" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "proc"


@linux
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("sys__kernel__apparmor_restrict_unprivileged_userns", "1\n", "apparmor_restrict"),
        ("sys__kernel__unprivileged_userns_clone", "0\n", "unprivileged_userns_clone=1"),
        ("sys__user__max_user_namespaces", "0\n", "max_user_namespaces=10000"),
    ],
)
def test_a_switch_is_named_with_its_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert any(said in one for one in advice(tmp_path, proc(tmp_path, **{name: value})))
    assert not any(said in one for one in advice(tmp_path, proc(tmp_path, **{name: "7\n"})))


@linux
def test_a_log_on_an_overlay_needs_a_volume(tmp_path: Path) -> None:
    line = "1 2 0:3 / {} rw,relatime - {} x rw\n"
    text = line.format("/", "overlay") + line.format(tmp_path / "volume", "ext4")
    made = proc(tmp_path, self__mountinfo=text)
    assert any("mount a volume" in one for one in advice(tmp_path, made))
    assert not any("mount a volume" in one for one in advice(tmp_path / "volume" / "log", made))


def test_elsewhere_linux_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert advice(tmp_path) == [
        "namespaces are Linux's: run it there, in WSL 2 or a virtual machine"
    ]
