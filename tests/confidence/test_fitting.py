import json
import subprocess
import sys
from pathlib import Path

import pytest
from known_truth import drawn, truth

from lwm_agents.confidence import Calibrator, Pair, fit, held_out, measure, report
from lwm_agents.confidence.calibrator import Isotonic, Logistic
from lwm_agents.confidence.pairs import folds
from lwm_agents.errors import Misuse
from lwm_agents.values import Signals


def without_statement(pairs: list[Pair]) -> list[Pair]:
    return [pair.model_copy(update={"confidence": None}) for pair in pairs]


def test_confidence_is_right_on_trajectories_not_used_to_calibrate() -> None:
    pairs, others = drawn(1500, 1), drawn(3000, 2)
    calibrator = fit(pairs, 0)
    before, after = report(others), report(others, calibrator)
    assert before.ece > 0.15
    assert after.ece < 0.05
    assert after.ece_width < 0.05
    assert (after.auroc or 0) > 0.7
    assert after.brier < before.brier
    off = [abs(calibrator("shell", pair.signals) - truth(pair.signals)) for pair in others]
    assert sum(off) / len(off) < 0.05


def test_each_held_out_confidence_is_by_a_calibrator_without_its_trajectory() -> None:
    pairs = drawn(150, 3)
    found = held_out(pairs, 0)
    outside, inside = next(iter(folds(pairs, 0, 5)))
    calibrator = fit([pairs[index] for index in outside], 0)
    for index in inside:
        own = pairs[index]
        assert found[index] == calibrator(own.tool, own.signals, own.domain)
    assert measure(pairs, found).ece < report(pairs).ece


def test_folds_never_part_a_trajectory() -> None:
    pairs = drawn(200, 4, per=7)
    seen: list[int] = []
    for outside, inside in folds(pairs, 9, 5):
        ours = {pairs[index].trajectory for index in inside}
        assert ours.isdisjoint(pairs[index].trajectory for index in outside)
        seen += inside
    assert sorted(seen) == list(range(200))
    assert list(folds(pairs, 9, 5)) == list(folds(pairs, 9, 5))
    assert list(folds(pairs, 8, 5)) != list(folds(pairs, 9, 5))


def test_a_tool_with_few_pairs_goes_by_its_domain_and_then_by_the_prior() -> None:
    pairs = [*drawn(300, 5), *drawn(20, 5, "rare")]
    calibrator = fit(pairs, 0)
    assert set(calibrator.tools) == {"shell"}
    assert set(calibrator.domains) == {"terminal"}
    signals = Signals(least=-0.1, logprob=-0.01, nearness=0.9, length=10)
    by_domain = calibrator.domains["terminal"]
    assert calibrator("rare", signals) == by_domain(signals, "rare")
    assert calibrator("unheard of", signals, "terminal") == by_domain(signals, "unheard of")
    assert calibrator("unheard of", signals) == pytest.approx(0.904837, abs=1e-5)  # exp(-0.1)
    assert calibrator("unheard of", None) == 0.5


def test_the_tools_of_a_domain_differ_by_an_offset() -> None:
    good = [
        pair.model_copy(update={"fidelity": 1.0 if index % 10 else 0.0})
        for index, pair in enumerate(drawn(40, 6, "good"))
    ]
    bad = [
        pair.model_copy(update={"fidelity": 0.0 if index % 10 else 1.0})
        for index, pair in enumerate(drawn(40, 6, "bad"))
    ]
    calibrator = fit([*good, *bad], 0)
    assert not calibrator.tools
    signals = good[0].signals
    assert calibrator("good", signals) > 0.6 > 0.4 > calibrator("bad", signals)


def test_a_tool_that_was_always_right_is_still_not_certain() -> None:
    pairs = [pair.model_copy(update={"fidelity": 1.0}) for pair in drawn(100, 7)]
    calibrator = fit(pairs, 0)
    assert calibrator("shell", pairs[0].signals) == pytest.approx(0.99)
    assert isinstance(calibrator.tools["shell"], Isotonic)
    few = fit(pairs[:60], 0)
    assert few("shell", pairs[0].signals) == pytest.approx(61 / 62, abs=1e-5)


def test_the_better_kind_of_map_is_chosen() -> None:
    # Rightness hangs on many signals, of which the prior sees one.
    many = fit(without_statement(drawn(600, 8)), 0)
    assert isinstance(many.tools["shell"], Logistic)
    # Rightness jumps twice over the prior: no straight line, nor a square, follows that.
    stepped = [
        Pair(
            id=str(index),
            tool="t",
            signals=Signals(stated=index % 100 / 100, length=5),
            fidelity=float((index * 7919 % 100) < (5 if index % 100 < 60 else 95)),
        )
        for index in range(2000)
    ]
    assert isinstance(fit(stepped, 0).tools["t"], Isotonic)


def test_nothing_to_calibrate_on_names_what_to_do() -> None:
    with pytest.raises(Misuse, match="lwm fidelity --out"):
        fit([], 0)


def test_the_same_pairs_and_seed_give_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        fit(drawn(200, 9), 3, engine="m.gguf").save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert json.loads((tmp_path / "a").read_text())["engine"] == "m.gguf"


def test_applying_a_calibration_needs_no_library(tmp_path: Path) -> None:
    pairs = drawn(300, 10)
    made = fit(pairs, 0)
    made.save(tmp_path / "c.json")
    assert Calibrator.load(tmp_path / "c.json") == made
    code = """
import json, sys
for name in ("numpy", "sklearn", "scipy", "matplotlib"):
    sys.modules[name] = None
from lwm_agents.confidence import Calibrator, fit, read_pairs, report
calibrator = Calibrator.load(sys.argv[1])
pairs = read_pairs(sys.argv[2])
print(json.dumps([calibrator(p.tool, p.signals) for p in pairs]))
assert report(pairs, calibrator).n == 300
try:
    fit(pairs)
except Exception as problem:
    print(problem)
"""
    rows = "".join(pair.model_dump_json() + "\n" for pair in pairs)
    (tmp_path / "rows.jsonl").write_text(rows)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "c.json"), str(tmp_path / "rows.jsonl")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert len(json.loads(first)) == 300
    assert "pip install 'lwm-agents[calibration]'" in last
