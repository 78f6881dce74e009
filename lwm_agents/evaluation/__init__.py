"""How well a world predicts recorded trajectories: draw steps, predict each, compare, sum up.

Each step is predicted from the *recorded* history before it (teacher-forced), never from earlier
predictions. Nothing is executed.
"""

from lwm_agents.evaluation.draws import (
    Draw,
    DrawnStep,
    Examples,
    draw_steps,
    read_examples,
    steps_of,
)
from lwm_agents.evaluation.rows import Row, RowFile
from lwm_agents.evaluation.run import Report, StepResult, WorldFactory, evaluate
from lwm_agents.evaluation.summary import DatasetScore, ToolScore, summarise

__all__ = [
    "DatasetScore",
    "Draw",
    "DrawnStep",
    "Examples",
    "Report",
    "Row",
    "RowFile",
    "StepResult",
    "ToolScore",
    "WorldFactory",
    "draw_steps",
    "evaluate",
    "read_examples",
    "steps_of",
    "summarise",
]
