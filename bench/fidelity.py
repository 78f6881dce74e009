"""How near each world comes on recorded tasks left out: the table of docs/worlds.md.

    python bench/fidelity.py FILE... --engine MODEL.gguf [--worlds default language ...]
        [--limit 60] [--seed 7] [--rows build/fidelity] [--results bench/results]

For each file, world and population (observations up to 600 characters, and all) it runs
`lwm fidelity --split-examples`: the tasks of drawn steps are never looked up. Each predicted step
is kept in a file under --rows as it comes, so the same command goes on where it was killed. The
scores go to `fidelity.json` under --results, and the table to stdout.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

WORLDS = ("recall", "nearest", "default", "language")
WITHOUT_MODEL = ("recall", "nearest")
LWM = (sys.executable, "-c", "from lwm_agents.cli import main; main()")


def measure(arguments: argparse.Namespace, file: Path, world: str, longest: int | None) -> Any:
    """Run one evaluation, or go on with it, and return its JSON document."""
    name = file.name.split(".")[0]
    model = "" if world in WITHOUT_MODEL else "-" + Path(arguments.engine).stem
    population = "all" if longest is None else f"to{longest}"
    rows = f"{name}-{world}{model}-{population}-seed{arguments.seed}-n{arguments.limit}.jsonl"
    command = [*LWM, "fidelity", str(file), "--world", world, "--split-examples", "--json"]
    command += ["--limit", str(arguments.limit), "--seed", str(arguments.seed)]
    command += ["--max-tokens", str(arguments.max_tokens), "--resume", str(arguments.rows / rows)]
    if longest is not None:
        command += ["--max-observation", str(longest)]
    if world not in WITHOUT_MODEL:
        command += ["--engine", arguments.engine]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    """Measure all, keep the scores, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--engine", default="", help="needed for the worlds default and language")
    parser.add_argument("--worlds", nargs="*", choices=WORLDS, default=WORLDS)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--rows", type=Path, default=Path("build/fidelity"))
    parser.add_argument("--results", type=Path, default=Path("bench/results"))
    parser.add_argument("--only-short", action="store_true", help="only up to 600 characters")
    arguments = parser.parse_args()
    arguments.rows.mkdir(parents=True, exist_ok=True)
    arguments.results.mkdir(parents=True, exist_ok=True)
    kept = arguments.results / "fidelity.json"
    found: list[dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else []
    for longest in (600,) if arguments.only_short else (600, None):
        for world in arguments.worlds:
            for file in arguments.files:
                document = measure(arguments, file, world, longest)
                engine = document["engine"] and Path(document["engine"]).name
                for name, score in document["datasets"].items():
                    one = {
                        "dataset": name, "world": world, "engine": engine,
                        "max_observation": longest, "seed": arguments.seed,
                        "examples": document["examples"], **score,
                    }  # fmt: skip
                    found = [old for old in found if identity(old) != identity(one)] + [one]
                found.sort(key=identity)
                kept.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


def identity(one: dict[str, Any]) -> tuple[str, ...]:
    """Return what tells one line of the table from the others."""
    names = ("max_observation", "dataset", "world", "engine", "seed", "n")
    return tuple(str(one[name] or "") for name in names)


def table(found: list[dict[str, Any]]) -> str:
    """Return the Markdown table."""
    lines = [
        "| observations | dataset | world | n | exact | similarity | fidelity | errors agree "
        "| calibration error | s a step |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        agree, said = one["error_agreement"], one["calibration"]
        longest = one["max_observation"]
        lines.append(
            f"| {'all' if longest is None else f'to {longest}'} | {one['dataset']} | {one['world']}"
            f" | {one['n']} | {one['exact']:.2f} | {one['similarity']:.2f} | {one['fidelity']:.2f} "
            f"| {'–' if agree is None else f'{agree:.2f}'} "
            f"| {'–' if said is None else format(said['ece'], '.2f')} "
            f"| {one['seconds_per_step']:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
