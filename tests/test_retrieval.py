from trajectories import act, recorded

from lwm_agents.retrieval import Recordings, action_words
from lwm_agents.values import Action

PAST = [
    recorded("one", ("find /a -name x.py", "/a/x.py\n"), ("ls /a", "x.py\n")),
    recorded("two", ("find /b -name y.py", "/b/y.py\n"), ("ls /a", "x.py\n")),
    recorded("three", ("ls /elsewhere", "z\n"), environment="another"),
    recorded("four", ("find /a -name x.py -print", "made up"), source="imagined"),
]


def texts(recordings: Recordings, text: str, session: str = "new") -> list[str]:
    found = recordings.near(act(text), recorded(session))
    return [near.transition.action.arguments["command"] for near in found]


def test_the_best_comes_first() -> None:
    found = Recordings(PAST).near(act("find /a -name x.py"), recorded("new"))
    assert found[0].transition.action == act("find /a -name x.py")
    assert found[0].nearness == 1
    assert 0 < found[1].nearness < 1
    assert [near.score for near in found] == sorted((near.score for near in found), reverse=True)


def test_only_what_really_happened_in_the_same_place_is_found() -> None:
    assert set(texts(Recordings(PAST), "ls find")) == {
        "find /a -name x.py",
        "find /b -name y.py",
        "ls /a",
    }
    assert Recordings(PAST).near(act("ls"), recorded("new", environment=None)) == ()
    everywhere = Recordings(PAST, place_of=lambda _trajectory: "here")
    assert "ls /elsewhere" in texts(everywhere, "ls")


def test_a_session_never_finds_its_own_recording() -> None:
    assert texts(Recordings(PAST), "find /a -name x.py", "one")[0] == "find /b -name y.py"
    assert "ls /a" in texts(Recordings(PAST), "ls /a", "one"), "seen in another one too"


def test_the_same_again_is_found_once_with_its_count() -> None:
    (first, *rest) = Recordings(PAST).near(act("ls /a"), recorded("new"))
    assert first.seen == 2
    assert all(near.transition.action != act("ls /a") for near in rest)


def test_kinship_prefers_what_has_a_like_trajectory() -> None:
    past = [
        recorded("one", ("show tables", "planes"), task="flights to Rome"),
        recorded("two", ("show tables", "dogs"), task="dogs and their owners"),
    ]
    found = Recordings(past).near(act("show tables"), recorded("new", task="owners of dogs"))
    assert found[0].transition.observation.text == "dogs"
    assert found[0].kinship > found[1].kinship


def test_signs_are_words_and_any_text_can_be_asked_for() -> None:
    assert action_words(act("a>b; `C`")) == ["bash", "a", ">", "b", "c"]
    recordings = Recordings(PAST)
    for text in ("", "'\"()*^:", 'AND OR NOT NEAR("x")', "\udcff\0", "x " * 9000):
        recordings.near(act(text), recorded("new"))
    recordings.near(Action(tool="bash", arguments={"n": [1, {"x": None}], "m": True}), PAST[0])


def test_its_own_steps_are_found_the_latest_of_equals_first() -> None:
    history = recorded("new", ("date +%S", "1"), ("ls", "a"), ("date +%S", "2"))
    found = Recordings([]).own(act("date +%S"), history)
    assert [near.transition.observation.text for near in found] == ["2", "1", "a"]
    assert all(near.own for near in found)


def test_examples_are_transitions_best_first() -> None:
    found = Recordings(PAST).examples(act("ls /a"), recorded("new"))
    assert found[0].observation.text == "x.py\n"
