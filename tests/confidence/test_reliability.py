import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_truth import drawn
from sklearn.metrics import brier_score_loss, roc_auc_score

from lwm_agents.confidence.reliability import (
    auroc,
    brier,
    calibration_error,
    chance,
    mass_bins,
    measure,
    report,
    width_bins,
)

cases = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=200)


def test_calibration_error_worked_by_hand() -> None:
    confidences, right = (
        [0.9] * 10 + [0.2] * 10,
        [True] * 7 + [False] * 3 + [True] * 2 + [False] * 8,
    )
    for bins in (mass_bins(confidences, right), width_bins(confidences, right)):
        assert [(one.n, round(one.right, 2)) for one in bins] == [(10, 0.2), (10, 0.7)]
        assert calibration_error(bins) == pytest.approx(0.1)


def test_bins_of_equal_mass_hold_a_tenth_each_and_never_part_equals() -> None:
    spread = [index / 1000 for index in range(1000)]
    assert [one.n for one in mass_bins(spread, [True] * 1000)] == [100] * 10
    lumped = [0.5] * 950 + spread[:50]
    bins = mass_bins(lumped, [True] * 1000)
    assert [one.n for one in bins] == [1000]  # the lump joins the first bin, which was not full
    lumped = spread[:300] + [0.5] * 700
    bins = mass_bins(lumped, [True] * 1000)
    assert [one.n for one in bins] == [100, 100, 100, 700]


def test_bins_of_equal_width_end_at_one() -> None:
    bins = width_bins([0.0, 0.1, 0.95, 1.0], [False, False, True, True])
    assert [(one.n, one.low, one.high) for one in bins] == [
        (1, 0.0, 0.0), (1, 0.1, 0.1), (2, 0.95, 1.0)]  # fmt: skip


@given(cases)
def test_brier_and_auroc_agree_with_scikit_learn(pairs: list[tuple[float, bool]]) -> None:
    said, right = [one for one, _ in pairs], [one for _, one in pairs]
    assert brier(said, right) == pytest.approx(brier_score_loss(right, said, pos_label=True))
    if len(set(right)) == 2:
        assert auroc(said, right) == pytest.approx(roc_auc_score(right, said))
    else:
        assert auroc(said, right) is None
    bins = mass_bins(said, right)
    assert sum(one.n for one in bins) == len(said)
    assert len(bins) <= 10
    assert 0 <= calibration_error(bins) <= 1


def test_true_confidences_have_about_the_error_that_is_by_chance() -> None:
    rng = random.Random(5)
    said = [rng.random() for _ in range(500)]
    errors = [
        calibration_error(mass_bins(said, [rng.random() < c for c in said])) for _ in range(50)
    ]
    assert chance(said) == pytest.approx(sum(errors) / 50, abs=0.01)
    assert chance(said * 8) < chance(said)


def test_a_report_says_what_was_said_and_counts_each_tool() -> None:
    pairs = [*drawn(50, 1), *drawn(30, 1, "sql")]
    found = report(pairs)
    assert (found.n, found.trajectories) == (80, 16)
    assert found.confidence == pytest.approx(0.95)
    assert {tool: one.n for tool, one in found.tools.items()} == {"shell": 50, "sql": 30}
    assert found.right == sum(pair.fidelity >= 0.9 for pair in pairs) / 80
    assert sum(one.n for one in found.bins) == sum(one.n for one in found.bins_width) == 80
    with pytest.raises(ValueError, match="no pair"):
        measure([], [])
