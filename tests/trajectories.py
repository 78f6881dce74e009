"""Short ways to write recorded trajectories."""

from lwm_agents.values import Action, Observation, Source, ToolSpec, Trajectory, Transition

SHELL = ToolSpec(name="bash", domain="terminal")
SQL = ToolSpec(name="run_sql", domain="database")


def act(text: str, tool: str = "bash") -> Action:
    return Action(tool=tool, arguments={"query" if "sql" in tool else "command": text})


def recorded(
    session: str,
    *steps: tuple[str, str],
    environment: str | None = "box",
    dataset: str | None = "own",
    task: str = "",
    tool: str = "bash",
    source: Source = "executed",
    errors: tuple[int, ...] = (),
) -> Trajectory:
    return Trajectory(
        session=session,
        task=task,
        tools=(SHELL, SQL),
        environment=environment,
        dataset=dataset,
        transitions=tuple(
            Transition(
                session=session,
                step=number,
                action=act(text, tool),
                observation=Observation(text=seen, source=source, is_error=number in errors),
            )
            for number, (text, seen) in enumerate(steps, 1)
        ),
    )
