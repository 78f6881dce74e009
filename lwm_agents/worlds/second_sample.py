"""A second sample: a model that answers otherwise when asked again is less to be trusted."""

from __future__ import annotations

from lwm_agents.scores.text import fold, similarity
from lwm_agents.values import Action, Observation, Signals, Trajectory
from lwm_agents.worlds.base import World

TEMPERATURE = 0.7
"""Of the second sample: at 0 it would be the first again."""


class SecondSample:
    """A language world that is asked twice, where its model was asked at all.

    `again` is asked at TEMPERATURE with another seed. The first answer is given; how alike the two
    are (0..1) is its `signals.agreement`, which calibration takes into account. It costs a second
    answer for each imagined step.
    """

    def __init__(self, first: World, again: World) -> None:
        self._first = first
        self._again = again

    async def step(self, action: Action, trajectory: Trajectory) -> Observation | None:
        """Return what the first world says, with how far the second agrees."""
        seen = await self._first.step(action, trajectory)
        if seen is None or seen.source != "imagined":
            return seen
        signals = seen.signals or Signals()
        if signals.computed or signals.example_match == 1.0:
            return seen  # worked out or copied: no model was asked
        other = await self._again.step(action, trajectory)
        agreement = 0.0
        if other is not None and other.is_error == seen.is_error:
            agreement = similarity(fold(seen.text), fold(other.text))
        return seen.model_copy(
            update={"signals": signals.model_copy(update={"agreement": agreement})}
        )
