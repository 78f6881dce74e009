"""The small tree that generated calls act on: of every kind of file, and the same each time."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
from pathlib import Path

TEXTS = {
    "README.md": "# Scratch\n\nA tree to try things on.\n\n- one\n- two\n",
    "notes.txt": "alpha 3\nbeta 1\ngamma 2\nbeta 1\nTODO: more\n",
    "numbers.txt": "".join(f"{n * 37 % 101}\n" for n in range(60)),
    "data.csv": "id,name,price\n1,lamp,19.5\n2,chair,45\n3,desk,120\n4,lamp,21\n",
    "src/app.py": "import util\n\n\ndef main():\n    print(util.double(21))\n\n\nmain()\n",
    "src/util.py": "def double(x):\n    return 2 * x\n",
    "src/lib/core.txt": "core\n# TODO later\n",
    "src/lib/deep/x.txt": "x\ny\nz\n",
    "docs/guide.md": "Guide\n=====\n\nSee notes.txt.\n" + "text " * 60 + "\n",
    "docs/with blank.txt": "blank\n",
    "docs/ünï-文.txt": "grüße 文\n",
    "docs/quo'te\".txt": "quotes\n",
    "docs/new\nline.txt": "two lines in a name\n",
    "docs/-dash": "dash\n",
    "docs/bad-\udcff\udcfe.txt": "no UTF-8 in the name\n",
    "scripts/run.sh": '#!/bin/sh\necho "run $*"\nexit ${1:-0}\n',
    "parts/a.in": "a\n",
    "parts/b.in": "b\n",
    "Makefile": (
        "all: out/a.o out/b.o\n\tcat out/a.o out/b.o > all\n"
        "out/%.o: parts/%.in | out\n\t@echo making $@\n\ttr a-z A-Z < $< > $@\n"
        "out:\n\tmkdir out\nclean:\n\trm -rf out all\nfail:\n\tfalse\n.PHONY: clean fail\n"
    ),
    "empty": "",
    "locked.txt": "read only\n",
    "secret.txt": "nobody reads this\n",
    "sealed/inside.txt": "sealed\n",
    "closed/inside.txt": "closed\n",
}
MODES = {
    "scripts/run.sh": 0o755,
    "locked.txt": 0o444,
    "secret.txt": 0o000,
    "sealed": 0o555,
    "closed": 0o000,
}
LINKS = {
    "link": "notes.txt",
    "chain": "link",
    "dangling": "nowhere/at all",
    "loop": "loop",
    "linkdir": "src/lib",
    "docs/up": "../data.csv",
}
DATABASE = "sqlite:///shop.db"
GIT = (
    "export GIT_AUTHOR_DATE='2024-03-04 05:06:07 +0000' GIT_COMMITTER_DATE='2024-03-04 05:06:07"
    " +0000'; "
)
"""So that commits have the same names each time."""

_BEGAN = 1_710_000_000


def make_template(root: Path, home: Path) -> None:
    """Make the tree, and a home directory with what git needs to know."""
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = A\n\temail = a@example.com\n[init]\n\tdefaultBranch = main\n"
        "[core]\n\tpager = cat\n[gc]\n\tauto = 0\n"
    )
    root.mkdir()
    for name, text in TEXTS.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "binary.bin").write_bytes(bytes(range(256)) * 20)
    (root / "big.txt").write_text("".join(f"line {n} of a longer file\n" for n in range(5000)))
    with open(root / "sparse.bin", "wb") as sparse:
        sparse.truncate(1 << 20)
        sparse.seek(300_000)
        sparse.write(b"data")
    os.link(root / "notes.txt", root / "hard.txt")
    os.link(root / "src/util.py", root / "docs/hard.py")
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    (root / "absolute").symlink_to(root / "docs")
    _make_database(root / "shop.db")
    _make_repository(root / "repo", home)
    for number, path in enumerate(sorted(root.rglob("*"), key=os.fspath)):
        os.utime(path, (_BEGAN + 60 * number,) * 2, follow_symlinks=False)


def _make_database(path: Path) -> None:
    database = sqlite3.connect(path)
    with database:
        database.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, price REAL)"
        )
        database.executemany(
            "INSERT INTO orders (item, price) VALUES (?, ?)",
            [("lamp", 19.5), ("chair", 45.0), ("desk", None)],
        )
        database.execute("CREATE INDEX by_item ON orders (item)")
    database.close()


def _make_repository(path: Path, home: Path) -> None:
    path.mkdir()
    (path / "code").mkdir()
    (path / "code/a.txt").write_text("one\ntwo\nthree\n")
    (path / "code/b.txt").write_text("b\n")
    (path / "top.txt").write_text("top\n")
    script = GIT + (
        "git init -q . && git add . && git commit -qm first && git checkout -qb side"
        " && sed -i s/two/TWO/ code/a.txt && git commit -qam side && git checkout -q main"
        " && sed -i s/two/2/ code/a.txt && git commit -qam main; rm -f .git/hooks/*.sample"
    )
    if shutil.which("git") is not None:
        environment = {**os.environ, "HOME": str(home)}
        subprocess.run(["bash", "-c", script], cwd=path, env=environment, check=True)


def copy_template(template: Path, root: Path) -> None:
    """Put the tree where calls act on it, whatever was there; links in it point there."""
    remove(root)
    subprocess.run(["cp", "-a", str(template), str(root)], check=True)
    (root / "absolute").unlink()
    (root / "absolute").symlink_to(root / "docs")
    os.utime(root / "absolute", (_BEGAN, _BEGAN), follow_symlinks=False)
    for name, mode in MODES.items():
        (root / name).chmod(mode)
    os.utime(root, (_BEGAN, _BEGAN))


def remove(path: Path) -> None:
    """Remove a tree, also where its owner may not."""
    if not path.exists():
        return
    for folder, _, _ in os.walk(path):
        _open(folder)
    shutil.rmtree(path)


def _open(folder: str) -> None:
    """Let the owner into a folder's folders, so that the walk goes on below them."""
    os.chmod(folder, stat.S_IMODE(os.lstat(folder).st_mode) | stat.S_IRWXU)
    with os.scandir(folder) as scan:
        for entry in scan:
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, entry.stat(follow_symlinks=False).st_mode | stat.S_IRWXU)
