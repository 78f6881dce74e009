from pathlib import Path

import pytest
from known_truth import drawn

from lwm_agents.confidence import Drift, report
from lwm_agents.confidence.pictures import draw_drift, draw_reliability, wilson
from lwm_agents.errors import Misuse

FOUND = Drift(
    tool="shell",
    engine="m.gguf",
    n=300,
    mean=0.7,
    rolling=tuple(0.9 if at < 60 else 0.5 for at in range(100)),
    before=0.9,
    after=0.5,
    p=0.001,
    warned=True,
    index=60,
)


def test_a_reliability_diagram_is_drawn_as_png_and_svg(tmp_path: Path) -> None:
    found = report(drawn(100, 1))
    for name in ("a.png", "a.svg", "b.svg"):
        draw_reliability(found, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_drift_is_drawn_for_each_tool(tmp_path: Path) -> None:
    still = FOUND.model_copy(update={"tool": "sql", "warned": False})
    draw_drift([FOUND, still], tmp_path / "d.svg")
    assert (tmp_path / "d.svg").read_text().count('id="axes_') == 2
    with pytest.raises(Misuse, match="nothing was predicted"):
        draw_drift([], tmp_path / "e.svg")


def test_a_picture_of_another_kind_or_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"\.png or an \.svg"):
        draw_drift([FOUND], tmp_path / "d.gif")
    with pytest.raises(Misuse, match="can't write"):
        draw_drift([FOUND], tmp_path / "nowhere" / "d.svg")


def test_wilson_interval() -> None:
    # Newcombe 1998, table I, method 3: 81 of 263 is .2553 to .3662.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
