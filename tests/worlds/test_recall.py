import pytest
from trajectories import SHELL, act, recorded

from lwm_agents.values import Action, Observation, ToolAnnotations, ToolSpec, Trajectory, Transition
from lwm_agents.worlds.recall import RecallWorld, surely_reads

PAST = recorded("past", ("ls", "a\nb\n"), ("touch c", ""), ("ls", "a\nb\nc\n"))


async def answer(world: RecallWorld, text: str, history: Trajectory) -> str | None:
    seen = await world.step(act(text), history)
    if seen is None:
        return None
    assert seen.source == "recalled"
    assert seen.confidence is not None
    return seen.text


async def test_the_same_actions_so_far_and_the_same_action_are_recalled() -> None:
    world = RecallWorld([PAST])
    assert await answer(world, "ls", recorded("new")) == "a\nb\n"
    assert await answer(world, "touch c", recorded("new")) == ""
    assert await answer(world, "ls", recorded("new", ("touch c", ""))) == "a\nb\nc\n"


async def test_near_is_not_the_same() -> None:
    world = RecallWorld([PAST])
    assert await answer(world, "ls -a", recorded("new")) is None
    assert await answer(world, "ls", recorded("new", ("touch d", ""))) is None


async def test_reads_that_provably_changed_nothing_are_left_out_of_the_key() -> None:
    world = RecallWorld([PAST])
    history = recorded("new", ("cat a", "hello"), ("touch c", ""), ("wc -l a", "1 a"))
    assert await answer(world, "ls", history) == "a\nb\nc\n"
    assert await answer(world, "ls", recorded("new", ("./look", ""))) is None


@pytest.mark.parametrize(
    "other",
    [
        {"environment": "another"},
        {"dataset": "another"},
        {"environment": None},
        {"dataset": None},
    ],
)
async def test_never_from_another_environment(other: dict[str, str | None]) -> None:
    assert await answer(RecallWorld([PAST]), "ls", recorded("new", **other)) is None  # type: ignore[arg-type]


async def test_a_real_machine_is_recalled_within_its_own_session_only() -> None:
    before = recorded("one", ("ls", "a\n"), ("cat a", "A"), environment=None)
    world = RecallWorld([before])
    assert await answer(world, "ls", recorded("two", environment=None)) is None
    assert await answer(world, "ls", before) == "a\n"
    changed = recorded("one", ("ls", "a\n"), ("rm a", ""), environment=None)
    assert await answer(world, "ls", changed) is None


async def test_never_from_the_recording_of_the_session_that_asks() -> None:
    world = RecallWorld([PAST])
    assert await answer(world, "ls", recorded("past")) is None


async def test_recordings_that_differ_are_no_answer() -> None:
    world = RecallWorld([recorded("one", ("ls", "a\n")), recorded("two", ("ls", "b\n"))])
    assert await answer(world, "ls", recorded("new")) is None


async def test_an_environment_whose_recordings_contradict_each_other_is_not_recalled() -> None:
    """Such a name stands for several states: a key seen once may be of another."""
    many = [recorded(f"s{n}", ("ls", f"{n % 2}\n"), (f"cat {n}", "only here")) for n in range(4)]
    assert await answer(RecallWorld(many), "cat 1", recorded("new")) is None
    same = [recorded(f"s{n}", ("ls", "0\n"), (f"cat {n}", "only here")) for n in range(4)]
    assert await answer(RecallWorld(same), "cat 1", recorded("new")) == "only here"


async def test_what_was_only_predicted_is_never_recalled() -> None:
    world = RecallWorld([recorded("past", ("ls", "a\n"), source="imagined")])
    assert await answer(world, "ls", recorded("new")) is None


async def test_after_an_imagined_change_nobody_knows_the_state() -> None:
    world = RecallWorld([PAST])
    history = recorded("new", ("touch c", ""), source="imagined")
    assert await answer(world, "ls", history) is None
    read = recorded("new", ("cat a", "hello"), source="imagined")
    assert await answer(world, "ls", read) == "a\nb\n"


async def test_steps_that_nothing_answered_did_nothing() -> None:
    world = RecallWorld([PAST])
    assert await answer(world, "ls", recorded("new", ("touch c", "?"), source="unanswered"))


async def test_a_tool_whose_spec_changed_is_another_tool() -> None:
    changed = ToolSpec(name="bash", domain="terminal", description="another shell")
    history = recorded("new").model_copy(update={"tools": (changed,)})
    assert await answer(RecallWorld([PAST]), "ls", history) is None


async def test_a_session_that_grows_is_followed_step_by_step() -> None:
    world, history = RecallWorld([PAST]), recorded("new")
    for text, seen in (("ls", "a\nb\n"), ("touch c", ""), ("ls", "a\nb\nc\n")):
        assert await answer(world, text, history) == seen
        step = Transition(
            session="new",
            step=len(history.transitions) + 1,
            action=act(text),
            observation=Observation(text=seen, source="recalled"),
        )
        history = history.model_copy(update={"transitions": (*history.transitions, step)})


def test_only_proof_counts_as_reading() -> None:
    assert surely_reads(act("ls | wc -l"), SHELL)
    assert not surely_reads(act("rm a"), SHELL)
    named = ToolSpec(name="get_user", annotations=ToolAnnotations(read_only_hint=True))
    assert not surely_reads(Action(tool="get_user"), named), "a promise is no proof"
