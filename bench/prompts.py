"""Time of one prompt and one parse for a 50-turn history, against the limit of 1 ms.

    python bench/prompts.py

A session grows to 50 turns, as real ones do; the time is of a further step: take the last
transition into the known state, render the prompt, parse an answer. Prints the ratio to the limit,
and what the same costs when nothing was rendered before.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from lwm_agents.prompts.computed import computed, repeated
from lwm_agents.prompts.parse import parse
from lwm_agents.prompts.render import render
from lwm_agents.prompts.state import KnownState, known_state
from lwm_agents.tools.base import builtin_tools
from lwm_agents.values import Action, Observation, Trajectory, Transition

TURNS, LIMIT_MS = 50, 1.0
TOOLS = tuple(tool.spec for tool in builtin_tools(database=True).values())


def turn(step: int) -> Transition:
    """Return the transition of one step: shell, files and SQL in turn, about 400 characters."""
    text = "".join(f"line {number} of step {step}\n" for number in range(20))
    action, seen = [
        (Action(tool="shell", arguments={"command": f"grep -rn part{step} src | sort"}), text),
        (
            Action(tool="write_file", arguments={"path": f"src/part{step}.py", "content": text}),
            f"Wrote {len(text)} bytes to src/part{step}.py",
        ),
        (Action(tool="read_file", arguments={"path": f"docs/{step}.md"}), text),
        (
            Action(tool="sql_query", arguments={"query": f"SELECT * FROM log WHERE n > {step}"}),
            f"n | said\n{text}(20 rows)\n",
        ),
    ][step % 4]
    return Transition(
        session="bench",
        step=step,
        action=action,
        observation=Observation(text=seen, source="executed"),
    )


def median_ms(work: Callable[[], object], rounds: int = 200) -> float:
    """Return the median time of a call in milliseconds."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def main() -> None:
    """Measure and print."""
    past = Trajectory(
        session="bench",
        task="Bench.",
        tools=TOOLS,
        transitions=tuple(turn(step) for step in range(1, TURNS + 1)),
    )
    action = Action(tool="shell", arguments={"command": "./build src/part49.py"})
    spec = past.tool("shell")
    state = known_state(past)
    answer = "<think>It builds.</think>\n<predicted_observation>\n" + "ok\n" * 50
    answer += "</predicted_observation>"

    def prompt() -> object:
        told = state.render(action, spec, 2400)
        return render(past, action, budget_tokens=7000, state=told)

    def answers() -> object:
        return repeated(past, action) or computed(past, action, state)

    def fold() -> object:
        fresh = KnownState(folded=TURNS - 1)
        return known_state(past, fresh)

    def cold() -> object:
        copies = tuple(one.model_copy() for one in past.transitions)
        return render(
            past.model_copy(update={"transitions": copies}), action, budget_tokens=7000, state=""
        )

    prompt()
    parts = {
        "render (known state included)": median_ms(prompt),
        "parse": median_ms(lambda: parse(answer)),
        "pinned and computed answers": median_ms(answers),
        "take in one transition": median_ms(fold),
    }
    for name, value in parts.items():
        print(f"{name}: {value:.3f} ms")
    both = parts["render (known state included)"] + parts["parse"]
    print(f"prompt and parse, {TURNS} turns: {both:.3f} ms = {both / LIMIT_MS:.2f} of the limit")
    whole = sum(parts.values())
    print(f"all of the world's own work: {whole:.3f} ms")
    print(f"nothing rendered before: {median_ms(cold, 20):.3f} ms")


if __name__ == "__main__":
    main()
