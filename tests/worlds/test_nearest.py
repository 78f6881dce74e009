import pytest
from trajectories import act, recorded

from lwm_agents.retrieval import Recordings
from lwm_agents.testing import ScriptedEngine
from lwm_agents.values import Action, Completion, Observation, Trajectory
from lwm_agents.worlds.language import LanguageWorld
from lwm_agents.worlds.nearest import AGAIN, DOUBTFUL, PIPED, STALE, SURE, NearestWorld

LISTING = "-rw 10 a\n-rw 20 b\n"


def world(*past: Trajectory) -> NearestWorld:
    return NearestWorld(Recordings(past))


async def step(nearest: NearestWorld, action: Action, history: Trajectory) -> Observation:
    seen = await nearest.step(action, history)
    assert seen is not None
    assert seen.source == "imagined", "a copy is not recalled: the state may be another"
    return seen


async def test_the_same_action_is_copied() -> None:
    seen = await step(world(recorded("p", ("ls -l", LISTING))), act("ls  -l;"), recorded("n"))
    assert (seen.text, seen.confidence) == (LISTING, SURE)


async def test_the_nearest_action_is_copied_with_its_names_exchanged() -> None:
    past = recorded("p", ("cat alpha.txt", "cat: alpha.txt: No such file\n"), errors=(1,))
    seen = await step(world(past), act("cat beta.txt"), recorded("n"))
    assert seen.text == "cat: beta.txt: No such file\n"
    assert seen.is_error
    assert seen.confidence is not None
    assert seen.confidence < DOUBTFUL + 0.1


async def test_a_tool_never_seen_in_this_place_gets_no_answer() -> None:
    nearest = world(recorded("p", ("ls", "a"), environment="another"))
    assert await nearest.step(act("ls"), recorded("n")) is None
    assert await nearest.step(act("ls", "other"), recorded("n")) is None


async def test_what_may_have_changed_since_is_doubtful() -> None:
    past = recorded("p", ("ls", "a\n"))
    assert (await step(world(past), act("ls"), recorded("n", ("cat a", "")))).confidence == SURE
    changed = recorded("n", ("rm a", ""))
    assert (await step(world(past), act("ls"), changed)).confidence == STALE
    own = recorded("n", ("ls", "a\n"), ("make", "no rule"), ("rm a", ""))
    assert (await step(world(), act("ls"), own)).confidence == STALE
    assert (await step(world(), act("make"), own)).confidence == AGAIN


async def test_recordings_that_differ_are_told_apart_by_what_is_around_them() -> None:
    flights = recorded(
        "f", ("show tables", "flights"), tool="run_sql", task="book a flight to Rome by plane"
    )
    pets = recorded("p", ("show tables", "pets"), tool="run_sql", task="find dogs and cats")
    asked = act("show tables", "run_sql")
    near = recorded("n", task="find dogs older than cats")
    seen = await step(world(flights, pets), asked, near)
    assert (seen.text, seen.confidence) == ("pets", SURE)
    unknown = await step(world(flights, pets), asked, recorded("n", task="something else"))
    assert unknown.confidence == DOUBTFUL


async def test_what_a_tool_always_gives_it_gives_again() -> None:
    thoughts = recorded("p", *((f"thinking of {n} things", "noted") for n in range(5)))
    seen = await step(world(thoughts), act("quite another idea"), recorded("n"))
    assert (seen.text, seen.confidence) == ("noted", SURE)


@pytest.mark.parametrize(
    ("form", "expected"), [("{:.1f}", "42.0"), ("{:.0f}", "42")], ids=["decimal", "whole"]
)
async def test_a_calculator_is_known_by_its_sums(form: str, expected: str) -> None:
    sums = recorded("p", *((f"{n} + {n}", form.format(2 * n)) for n in (3, 4, 8, 9)))
    seen = await step(world(sums), act("6 * 7"), recorded("n"))
    assert (seen.text, seen.confidence) == (expected, SURE)


async def test_the_filter_of_a_pipeline_is_worked_out_on_its_beginning() -> None:
    past = recorded("p", ("ls -l", LISTING))
    seen = await step(world(past), act("ls -l | awk '{print $2}' | tail -1"), recorded("n"))
    assert (seen.text, seen.confidence) == ("20\n", PIPED)
    assert seen.signals is not None
    assert seen.signals.computed


async def test_a_complaint_goes_through_no_filter() -> None:
    past = recorded("p", ("find x", "find: 'x': No such file or directory\n"))
    seen = await step(world(past), act("find x | wc -l"), recorded("n"))
    assert seen.confidence != PIPED


def sure(text: str, logprob: float) -> Completion:
    return Completion(text=text, logprobs=(logprob,))


async def test_the_language_world_copies_where_a_copy_is_likelier_right() -> None:
    past = recorded("p", ("ls", "a\n"), ("git status --short", "?? a\n"))
    engine = ScriptedEngine([sure("imagined", -0.01), sure("imagined", -3.0)])
    language = LanguageWorld(engine, nearest=world(past))

    async def said(text: str) -> tuple[str, int]:
        seen = await language.step(act(text), recorded("n"))
        assert seen is not None
        return seen.text, len(engine.requests)

    assert await said("ls") == ("a\n", 0), "not even asked"
    far = "make clean"
    assert await said(far) == ("imagined", 1)
    assert (await said(far))[0] != "imagined", "a model in doubt loses against the copy"


async def test_a_model_that_says_nothing_leaves_the_copy() -> None:
    past = recorded("p", ("cat a b c d", "x\n"))
    language = LanguageWorld(ScriptedEngine(["<think>hm</think>"]), nearest=world(past))
    seen = await language.step(act("cat a q"), recorded("n"))
    assert seen is not None
    assert seen.text == "x\n"


async def test_the_answers_signals_say_how_it_compares_with_the_copy() -> None:
    past = recorded("p", ("cat a b c d", "x\n"))
    language = LanguageWorld(ScriptedEngine([sure("x\n", -0.1)]), nearest=world(past))
    seen = await language.step(act("cat e"), recorded("n"))
    assert seen is not None
    assert seen.signals is not None
    assert seen.signals.least == -0.1
    assert seen.signals.nearness is not None
    assert seen.signals.example_match == 1
