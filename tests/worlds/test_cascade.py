import pytest
from trajectories import act, recorded

from lwm_agents.errors import EngineUnreachable
from lwm_agents.places.place import CannotSay
from lwm_agents.testing import ScriptedWorld
from lwm_agents.values import Action, Observation, Trajectory
from lwm_agents.worlds.cascade import Cascade


class Raising:
    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
        raise self.problem


SILENT = ScriptedWorld(lambda _action, _history: None)
UNANSWERED = ScriptedWorld(
    lambda _action, _history: Observation(text="?", source="unanswered", is_error=True)
)


async def test_the_first_world_that_can_answer_does() -> None:
    last = ScriptedWorld("never asked")
    cascade = Cascade(
        SILENT, UNANSWERED, Raising(CannotSay("no network")), None, ScriptedWorld("yes"), last
    )
    seen = await cascade.step(act("ls"), recorded("s"))
    assert seen is not None
    assert seen.text == "yes"
    assert last.actions == []


async def test_no_answer_is_none() -> None:
    assert await Cascade(SILENT, UNANSWERED).step(act("ls"), recorded("s")) is None
    assert await Cascade().step(act("ls"), recorded("s")) is None


async def test_a_model_that_fails_is_not_passed_over() -> None:
    cascade = Cascade(Raising(EngineUnreachable("gone")), ScriptedWorld("a guess"))
    with pytest.raises(EngineUnreachable):
        await cascade.step(act("ls"), recorded("s"))


async def test_all_worlds_see_one_history() -> None:
    seen: list[Trajectory] = []

    def look(_action: Action, history: Trajectory) -> None:
        seen.append(history)

    history = recorded("s", ("ls", "a"))
    await Cascade(ScriptedWorld(look), ScriptedWorld(look)).step(act("ls"), history)
    assert seen == [history, history]
