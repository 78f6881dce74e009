"""Records a terminal session, real commands in a real pseudo-terminal, as an SVG.

python docs/pictures/record.py docs/pictures/rehearsal.svg
"""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pyte
from rich.console import Console
from rich.text import Text

COLUMNS = 80
NAMED = {"default", "black", "red", "green", "blue", "magenta", "cyan", "white", "yellow"}
PLAN = {
    "task": "Clean up",
    "database": "sqlite:///shop.db",
    "steps": [
        {"tool": "shell", "arguments": {"command": "rm -rf build && ls"}},
        {"tool": "sql_execute", "arguments": {"query": "DELETE FROM orders WHERE paid = 0"}},
        {"tool": "shell", "arguments": {"command": "sed -i s/Friday/Monday/ notes.txt; cat *.txt"}},
    ],
}


def main() -> None:
    """Record the session and write the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "shop"
        (folder / "build").mkdir(parents=True)
        (folder / "build" / "app.o").write_text("object\n")
        (folder / "notes.txt").write_text("Ship on Friday.\n")
        (folder / "plan.json").write_text(json.dumps(PLAN))
        database = sqlite3.connect(folder / "shop.db")
        with database:
            database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item, paid)")
            database.execute("INSERT INTO orders (item, paid) VALUES ('lamp', 1), ('desk', 0)")
        database.close()
        environment = {
            **os.environ,
            "LWM_STORE": f"{name}/log/lwm.db",
            "LWM_CONFIG": os.devnull,
            "COLUMNS": str(COLUMNS),
            "TERM": "xterm-256color",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        text = Text()
        session = ""
        for command in (
            "lwm dry-run plan.json",
            "ls",
            "lwm diff SESSION",
            "lwm commit SESSION --yes --allow destroy",
            "ls",
            "lwm undo SESSION",
            "ls; cat notes.txt",
        ):
            line = command.replace("SESSION", session[:15])
            said = run(line, folder, environment).replace(name.encode(), b"~")
            if found := re.search(rb"lwm show (\S+)", said):
                session = found[1].decode()
            text.append("$ ", style="bold green").append(f"{line}\n", style="bold")
            text.append(screen(said)).append("\n\n")
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115
    text.rstrip()
    console.print(text)
    picture = console.export_svg(title="dry-run, diff, commit, undo")
    # Without the fonts that it would load from elsewhere.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    Path(sys.argv[1]).write_text(picture.replace("Fira Code", "monospace"))


def run(command: str, folder: Path, environment: dict[str, str]) -> bytes:
    """Run a command in a pseudo-terminal and return what it wrote there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 4096):
            said += piece
    except OSError:
        pass  # the other end is closed
    os.close(ours)
    process.wait()
    return said


def screen(said: bytes) -> Text:
    """Return what a terminal would show in the end."""
    terminal = pyte.Screen(COLUMNS, 500)
    terminal.set_mode(pyte.modes.LNM)
    pyte.ByteStream(terminal).feed(said)
    shown = Text()
    for number in range(terminal.cursor.y + 1):
        line = Text()
        row = [terminal.buffer[number][column] for column in range(COLUMNS)]
        for style, signs in itertools.groupby(row, key=style_of):
            line.append("".join(sign.data for sign in signs), style=style)
        line.rstrip()
        shown.append(line).append("\n")
    shown.rstrip()
    return shown


def style_of(sign: pyte.screens.Char) -> str:
    """Return a sign's style as Rich names it."""
    colour = sign.fg if sign.fg in NAMED else f"#{sign.fg}"
    return f"{colour} {'bold' if sign.bold else ''}".strip()


if __name__ == "__main__":
    main()
