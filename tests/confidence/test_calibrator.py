import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwm_agents.confidence import Calibrator, stated_prior
from lwm_agents.confidence.calibrator import Isotonic, Logistic, Weight, features
from lwm_agents.errors import ConfigError
from lwm_agents.values import Observation, Signals

shares = st.none() | st.floats(0, 1)
signals_drawn = st.builds(
    Signals,
    logprob=st.none() | st.floats(-1e6, 10),
    least=st.none() | st.floats(-1e6, 10),
    nearness=shares,
    example_match=shares,
    agreement=shares,
    stated=shares,
    computed=st.booleans(),
    cut=st.booleans(),
    length=st.integers(0, 10**9),
)
MAPS = Calibrator(
    tools={
        "line": Isotonic(n=9, x=(0.2, 0.6), y=(0.1, 0.9)),
        "curve": Logistic(
            n=9,
            intercept=-1.0,
            weights={"near": Weight(weight=4.0, low=0.25, high=0.75)},
        ),
    }
)


@pytest.mark.parametrize(
    ("signals", "prior"),
    [
        (Signals(), 0.5),
        (Signals(cut=True), 0.25),
        (Signals(computed=True, least=-5.0), 0.99),
        (Signals(least=-0.5, nearness=0.9), math.exp(-0.5)),
        (Signals(least=-50.0), 0.02),
        (Signals(nearness=0.8), 0.8),
        (Signals(nearness=0.8, example_match=0.5), 0.4),
        (Signals(stated=0.7, computed=True, cut=True), 0.7),
    ],
)
def test_the_stated_prior(signals: Signals, prior: float) -> None:
    assert stated_prior(signals) == pytest.approx(prior)


def test_an_isotonic_map_runs_through_its_knots_and_is_level_beyond() -> None:
    found = [MAPS("line", Signals(stated=at)) for at in (0.0, 0.2, 0.4, 0.6, 1.0)]
    assert found == pytest.approx([0.1, 0.1, 0.5, 0.9, 0.9])


def test_a_logistic_map_goes_no_further_than_what_it_was_fitted_on() -> None:
    found = [MAPS("curve", Signals(nearness=at)) for at in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert found == pytest.approx([0.5, 0.5, 1 / (1 + math.exp(-1)), 1 / (1 + math.exp(-2)),
                                   1 / (1 + math.exp(-2))])  # fmt: skip


@given(signals_drawn, st.sampled_from(["line", "curve", "other"]))
def test_confidence_is_a_probability_whatever_the_signals(signals: Signals, tool: str) -> None:
    assert 0.01 <= MAPS(tool, signals) <= 0.99
    assert all(math.isfinite(value) for value in features(signals).values())


def test_applying_keeps_what_the_world_said_and_can_be_done_twice() -> None:
    seen = Observation(text="x", source="imagined", confidence=0.4, signals=Signals(length=1))
    once = MAPS.applied(seen, "line")
    assert once.confidence == pytest.approx(0.5)
    assert once.signals == Signals(length=1, stated=0.4)
    assert MAPS.applied(once, "line") == once
    bare = MAPS.applied(Observation(text="x", source="recalled", confidence=0.6), "line")
    assert bare.confidence == pytest.approx(0.9)
    assert bare.signals == Signals(stated=0.6)


@pytest.mark.parametrize("source", ["executed", "rehearsed", "unanswered"])
def test_what_is_no_guess_gets_no_confidence(source: str) -> None:
    seen = Observation.model_validate({"text": "x", "source": source})
    assert MAPS.applied(seen, "line") == seen


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    MAPS.save(tmp_path / "c.json")
    assert Calibrator.load(tmp_path / "c.json") == MAPS
    assert json.loads((tmp_path / "c.json").read_text())["version"] == 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 2}', '{"tools": {"t": {"kind": "pickle"}}}']
)
def test_a_file_that_is_no_calibration_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"c\.json .*lwm calibrate"):
        Calibrator.load(file)
    with pytest.raises(ConfigError, match="nowhere"):
        Calibrator.load(tmp_path / "nowhere")


def test_an_engine_for_which_none_ships_gets_the_stated_prior() -> None:
    found = Calibrator.default("an engine that nobody has")
    assert not found.tools
    assert found("shell", Signals(least=-0.5)) == pytest.approx(math.exp(-0.5))
