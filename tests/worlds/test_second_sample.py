"""The second sample: asked for only where a model was, and never the answer itself."""

from __future__ import annotations

import pytest

from lwm_agents.testing import ScriptedEngine, ScriptedWorld
from lwm_agents.values import Action, Observation, Signals, Trajectory
from lwm_agents.worlds.language import LanguageWorld
from lwm_agents.worlds.second_sample import TEMPERATURE, SecondSample

LS = Action(tool="shell", arguments={"command": "./run"})
NOW = Trajectory(session="now")


@pytest.mark.parametrize(("second", "agreement"), [("one two", 1.0), ("zzz", 0.0)])
async def test_the_first_answer_is_given_with_how_far_the_second_agrees(
    second: str, agreement: float
) -> None:
    engine = ScriptedEngine(["one two", second])
    world = SecondSample(
        LanguageWorld(engine), LanguageWorld(engine, seed=1, temperature=TEMPERATURE, pin=False)
    )
    seen = await world.step(LS, NOW)
    assert seen is not None
    assert seen.text.strip() == "one two"
    assert seen.signals is not None
    assert seen.signals.agreement == pytest.approx(agreement)
    assert [one.temperature for one in engine.samplings] == [0.0, TEMPERATURE]
    assert engine.samplings[0].seed != engine.samplings[1].seed


@pytest.mark.parametrize(
    "seen",
    [
        Observation(text="x", source="rehearsed"),
        Observation(text="x", source="recalled"),
        Observation(text="x", source="imagined", signals=Signals(computed=True)),
        Observation(text="x", source="imagined", signals=Signals(example_match=1.0)),
        None,
    ],
)
async def test_nobody_is_asked_where_no_model_was(seen: Observation | None) -> None:
    def fails(action: Action, trajectory: Trajectory) -> Observation:
        raise AssertionError("asked")

    world = SecondSample(ScriptedWorld(lambda action, trajectory: seen), ScriptedWorld(fails))
    assert await world.step(LS, NOW) == seen


async def test_a_second_answer_that_fails_is_no_agreement() -> None:
    imagined = Observation(text="x", source="imagined", signals=Signals(logprob=-0.1))
    world = SecondSample(
        ScriptedWorld(lambda action, trajectory: imagined),
        ScriptedWorld(lambda action, trajectory: None),
    )
    seen = await world.step(LS, NOW)
    assert seen is not None
    assert seen.signals == Signals(logprob=-0.1, agreement=0.0)
