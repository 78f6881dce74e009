"""What Bash commands do to a known disk: their exact output, or what they leave uncertain.

Only what is the same on every Linux machine is worked out: no error messages (they follow the
language of the machine) and no listing whose order hangs on its locale.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

from lwm_agents.prompts.bash import Command, Pipeline, literal, only_reads
from lwm_agents.prompts.disk import Disk, Kind


@dataclass
class Machine:
    """A known disk and the shell's directory on it (None: not known)."""

    disk: Disk
    cwd: str | None = "."

    def copy(self) -> Machine:
        """Return a machine that can change without changing this one."""
        return Machine(self.disk.copy(), self.cwd)


@dataclass(frozen=True)
class Answer:
    """What a command prints, and its exit code."""

    text: str
    code: int = 0


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a terminal shows as what it does, not as it is."""
_LARGEST = 200_000
"""Characters of a file or an output that are worked on."""


class _UnsureError(Exception):
    """What happens here does not follow from what is known."""


def simulate(command: str, machine: Machine) -> Answer | None:
    """Return exactly what a command prints and change `machine` as it would; None: not certain.

    Where it is not certain, `machine` is unchanged.
    """
    pipelines = literal(command)
    if not pipelines or _gone(machine):
        return None
    trial = machine.copy()
    try:
        answer = _run(pipelines, trial)
    except _UnsureError:
        return None
    machine.disk, machine.cwd = trial.disk, trial.cwd
    return answer


def _gone(machine: Machine) -> bool:
    """Return whether the shell's directory was removed: the next command runs elsewhere."""
    return machine.cwd is not None and machine.disk.status(machine.cwd) == "absent"


def absorb(command: str, text: str, succeeded: bool | None, machine: Machine) -> None:
    """Take in what a command that ran did, given what it printed and whether it succeeded."""
    if only_reads(command):
        _learn(command, text, succeeded, machine)
        return
    pipelines = literal(command)
    if not pipelines:
        moves = re.search(r"\b(cd|pushd|popd|source|eval)\b|(^|[;&|\s])\.\s", command)
        machine.cwd = None if moves else machine.cwd
        machine.disk.forget_all()
        return
    chained = all(pipeline.joined == "&&" for pipeline in pipelines[1:])
    for pipeline in pipelines:
        worked = bool(succeeded and chained) or (succeeded is True and pipeline is pipelines[-1])
        if pipeline.joined == "||":
            worked = False
        # Commands that change something print nothing when they work and complain when not.
        if not text.strip() and chained and succeeded is not False and _complains(pipeline):
            worked = True
        _effects(pipeline, worked, machine)


def _complains(pipeline: Pipeline) -> bool:
    return not any(command.silenced for command in pipeline.commands)


# --- exact ------------------------------------------------------------------------------------


def _run(pipelines: Sequence[Pipeline], machine: Machine) -> Answer:
    printed: list[str] = []
    code = 0
    for pipeline in pipelines:
        if (pipeline.joined == "&&" and code) or (pipeline.joined == "||" and not code):
            continue
        text, code = _pipe(pipeline, machine)
        printed.append(_plain(text))
        if sum(map(len, printed)) > _LARGEST:
            raise _UnsureError
    return Answer("".join(printed), code)


def _plain(text: str) -> str:
    """Return the text; raises _UnsureError unless a terminal shows it as it is."""
    if len(text) > _LARGEST or _CONTROL.search(text):
        raise _UnsureError
    return text


def _pipe(pipeline: Pipeline, machine: Machine) -> tuple[str, int]:
    if len(pipeline.commands) == 1:
        return _command(pipeline.commands[0], machine, None)
    if any(command.words[0] in {"cd", *_CHANGERS} for command in pipeline.commands):
        raise _UnsureError
    if any(command.writes for command in pipeline.commands[:-1]):
        raise _UnsureError
    # All commands start at once: what one reads may be emptied by then, or not.
    early = machine.copy()
    _opened(pipeline.commands[-1], machine)
    text, code = "", 0
    for number, command in enumerate(pipeline.commands):
        stdin = text if number else None
        if _output(command, machine, stdin) != _output(command, early, stdin):
            raise _UnsureError
        text, code = _command(command, machine, stdin)
    return text, code


def _command(command: Command, machine: Machine, stdin: str | None) -> tuple[str, int]:
    """Run one command: its redirections are opened first, so it finds their files emptied."""
    keys = _opened(command, machine)
    text, code = _output(command, machine, stdin)
    if not command.writes:
        return text, code
    key = keys[-1]
    if key is not None and text:
        content = (machine.disk.content(key) or "") + text
        if len(content) > _LARGEST:
            raise _UnsureError
        machine.disk.write(key, content)
    return "", code


def _output(command: Command, machine: Machine, stdin: str | None) -> tuple[str, int]:
    handler = _HANDLERS.get(command.words[0])
    if handler is None:
        raise _UnsureError
    stdin = command.stdin if command.stdin is not None else stdin
    text, code = handler(machine, list(command.words[1:]), stdin)
    if len(text) > _LARGEST:
        raise _UnsureError
    return text, code


def _opened(command: Command, machine: Machine) -> list[str | None]:
    """Open the files a command's output goes to; return their keys, None for /dev/null."""
    keys: list[str | None] = []
    for path, appended in command.writes:
        if path == "/dev/null":
            keys.append(None)
            continue
        key = _sure_key(machine, path)
        if _reads(command, key, machine):
            raise _UnsureError  # `cat a >> a` is refused
        kind = machine.disk.status(key)
        entry = machine.disk.entries.get(key)
        if kind == "file" and entry is not None and entry.made:
            if not appended:
                machine.disk.write(key, "")
            elif entry.content is None:
                raise _UnsureError
        elif kind == "absent" and machine.disk.writable(key):
            machine.disk.write(key, "")
        else:
            raise _UnsureError
        keys.append(key)
    return keys


def _reads(command: Command, key: str, machine: Machine) -> bool:
    """Return whether a command names the file that its own output goes to."""
    return any(machine.disk.key(word, machine.cwd) == key for word in command.words[1:])


def _sure_key(machine: Machine, path: str) -> str:
    key = machine.disk.key(path, machine.cwd)
    if key is None or (_as_directory(path) and machine.disk.status(key) != "directory"):
        raise _UnsureError
    return key


def _as_directory(path: str) -> bool:
    """Return whether a path can name a directory only, as `a/` and `a/.` do."""
    return path.rsplit("/", 1)[-1] in {"", ".", ".."}


def _file_text(machine: Machine, path: str) -> str:
    content = machine.disk.content(_sure_key(machine, path))
    if content is None:
        raise _UnsureError
    return _plain(content)


Handler = Callable[[Machine, list[str], str | None], tuple[str, int]]


def _cat(machine: Machine, words: list[str], stdin: str | None) -> tuple[str, int]:
    if any(word.startswith("-") for word in words):
        raise _UnsureError
    return _input(machine, words, stdin), 0


def _input(machine: Machine, paths: Sequence[str], stdin: str | None) -> str:
    if paths:
        text = ""
        for path in paths:
            text += _file_text(machine, path)
            if len(text) > _LARGEST:
                raise _UnsureError
        return text
    if stdin is None:
        raise _UnsureError
    return _plain(stdin)


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+\Z", text)


def _head_tail(last: bool) -> Handler:
    def run(machine: Machine, words: list[str], stdin: str | None) -> tuple[str, int]:
        count, rest = 10, words
        if words and (match := re.fullmatch(r"(?:-n|-)([0-9]{1,9})", words[0])):
            count, rest = int(match[1]), words[1:]
        elif len(words) >= 2 and words[0] == "-n" and re.fullmatch("[0-9]{1,9}", words[1]):
            count, rest = int(words[1]), words[2:]
        if len(rest) > 1 or any(word.startswith("-") for word in rest):
            raise _UnsureError
        lines = _lines(_input(machine, rest, stdin))
        kept = (lines[-count:] if count else []) if last else lines[:count]
        return "".join(kept), 0

    return run


def _wc(machine: Machine, words: list[str], stdin: str | None) -> tuple[str, int]:
    if not words or words[0] not in {"-l", "-c", "-w", "-m"} or len(words) > 2:
        raise _UnsureError
    text = _input(machine, words[1:], stdin)
    if words[0] in {"-m", "-w"} and not text.isascii():
        raise _UnsureError
    number = {
        "-l": text.count("\n"),
        "-c": len(text.encode("utf-8", "replace")),
        "-m": len(text),
        "-w": len(text.split()),
    }[words[0]]
    return (f"{number} {words[1]}\n" if words[1:] else f"{number}\n"), 0


def _ls(machine: Machine, words: list[str], _stdin: str | None) -> tuple[str, int]:
    options = {word for word in words if word.startswith("-")}
    paths = [word for word in words if not word.startswith("-")]
    if options - {"-1", "-a", "-A", "-1A", "-A1", "-a1", "-1a"} or len(paths) > 1:
        raise _UnsureError
    path = paths[0] if paths else "."
    key = _sure_key(machine, path)
    if machine.disk.status(key) == "file":
        return f"{path}\n", 0
    children = machine.disk.children(key)
    if children is None:
        raise _UnsureError
    names = [
        n for n in children if options & {"-a", "-A", "-1A", "-A1", "-a1", "-1a"} or n[0] != "."
    ]
    if any("a" in option for option in options):
        names += [".", ".."]
    return "".join(f"{name}\n" for name in locale_free_order(names)), 0


def locale_free_order(names: Sequence[str]) -> list[str]:
    """Return names sorted; raises _UnsureError unless every usual locale sorts them alike."""
    if any(not re.fullmatch(r"[a-z0-9._-]+", name) for name in names):
        raise _UnsureError
    plain = sorted(names)
    # Other locales look at letters and digits first, and at the signs between them last.
    folded = [re.sub(r"[._-]", "", name) for name in plain]
    if folded != sorted(folded) or len(set(folded)) != len(folded):
        raise _UnsureError
    return plain


def _pwd(machine: Machine, words: list[str], _stdin: str | None) -> tuple[str, int]:
    if words or machine.cwd is None:
        raise _UnsureError
    absolute = absolute_cwd(machine)
    if absolute is None:
        raise _UnsureError
    return f"{absolute}\n", 0


def absolute_cwd(machine: Machine) -> str | None:
    """Return the shell's directory as an absolute path, None where it is not known."""
    if machine.cwd is None:
        return None
    if machine.cwd.startswith("/"):
        return machine.cwd
    if machine.disk.root is None:
        return None
    return posixpath.normpath(posixpath.join(machine.disk.root, machine.cwd))


def _echo(_machine: Machine, words: list[str], _stdin: str | None) -> tuple[str, int]:
    end = "\n"
    if words and words[0] == "-n":
        words, end = words[1:], ""
    if words and re.fullmatch(r"-[neE]+", words[0]):
        raise _UnsureError
    return " ".join(words) + end, 0


def _printf(_machine: Machine, words: list[str], _stdin: str | None) -> tuple[str, int]:
    if not words or words[0].startswith("-"):
        raise _UnsureError
    form, values = words[0], words[1:]
    pieces = re.split(r"(%s|\\n|\\t|%%)", form)
    if any(re.search(r"[%\\]", piece) for piece in pieces[::2]):
        raise _UnsureError
    plain = {"\\n": "\n", "\\t": "\t", "%%": "%"}
    slots = pieces.count("%s")
    rounds = max(1, -(-len(values) // slots)) if slots else 1
    if rounds * len(form) + sum(map(len, values)) > _LARGEST:
        raise _UnsureError
    todo = iter(values)
    text = "".join(
        next(todo, "") if piece == "%s" else plain.get(piece, piece)
        for _ in range(rounds)
        for piece in pieces
    )
    return text, 0


def _grep(machine: Machine, words: list[str], stdin: str | None) -> tuple[str, int]:
    options: set[str] = set()
    while words and words[0].startswith("-"):
        options.add(words[0])
        words = words[1:]
    if options - {"-c", "-i", "-v", "-n", "-F"} or not 1 <= len(words) <= 2:
        raise _UnsureError
    pattern = words[0]
    if not re.fullmatch(r"[A-Za-z0-9 _=,:@/-]+", pattern):
        raise _UnsureError  # a regular expression, or letters whose case hangs on the locale
    text = _input(machine, words[1:], stdin)
    if not text.isascii():
        raise _UnsureError
    lower = "-i" in options
    wanted = pattern.lower() if lower else pattern
    found = [
        (number, line)
        for number, line in enumerate(_lines(text), 1)
        if (wanted in (line.lower() if lower else line)) != ("-v" in options)
    ]
    code = 0 if found else 1
    if "-c" in options:
        return f"{len(found)}\n", code
    numbered = "-n" in options
    out = [f"{number}:{line}" if numbered else line for number, line in found]
    return "".join(line if line.endswith("\n") else line + "\n" for line in out), code


def _test(machine: Machine, words: list[str], _stdin: str | None) -> tuple[str, int]:
    if len(words) != 2 or words[0] not in {"-e", "-f", "-d", "-s"}:
        raise _UnsureError
    key = _sure_key(machine, words[1])
    kind = machine.disk.status(key)
    if kind is None or kind == "link":
        raise _UnsureError
    content = machine.disk.content(key)
    if words[0] == "-s" and kind == "file" and content is None:
        raise _UnsureError
    holds = {
        "-e": kind != "absent",
        "-f": kind == "file",
        "-d": kind == "directory",
        "-s": kind == "directory" or bool(content),
    }[words[0]]
    return "", 0 if holds else 1


def _cd(machine: Machine, words: list[str], _stdin: str | None) -> tuple[str, int]:
    if len(words) != 1 or words[0].startswith("-"):
        raise _UnsureError
    key = _sure_key(machine, words[0])
    if machine.disk.status(key) != "directory":
        raise _UnsureError
    machine.cwd = key
    return "", 0


def _change(name: str) -> Handler:
    def run(machine: Machine, words: list[str], _stdin: str | None) -> tuple[str, int]:
        if not _certain_change(machine, name, words):
            raise _UnsureError
        _apply(machine, name, words, True)
        return "", 0

    return run


def _certain_change(machine: Machine, name: str, words: list[str]) -> bool:
    """Return whether what is known makes certain that this change works, and says nothing."""
    disk = machine.disk
    recursive = name == "rm" and any(w in {"-r", "-rf", "-fr", "-R"} for w in words)
    forced = any(w in {"-f", "-rf", "-fr"} for w in words)
    paths = [w for w in words if not w.startswith("-")]
    options = {w for w in words if w.startswith("-")}
    if options - {"mkdir": {"-p"}, "rm": {"-r", "-f", "-rf", "-fr", "-R"}}.get(name, set()):
        return False
    keys = [disk.key(path, machine.cwd) for path in paths]
    if not keys or any(key is None for key in keys) or any(map(_as_directory, paths)):
        return False
    known = [key for key in keys if key is not None]
    if any(one == other or one.startswith(other + "/") for one, other in permutations(known, 2)):
        return False  # the first may take away, or make, what the next one names
    kinds = [disk.status(key) for key in known]
    if name == "mkdir":
        return all(
            kind == "absent" and disk.writable(k) for k, kind in zip(known, kinds, strict=True)
        )
    if name == "touch":
        return all(
            (kind == "file" and disk.entries[k].made) or (kind == "absent" and disk.writable(k))
            for k, kind in zip(known, kinds, strict=True)
        )
    if name == "rm":
        return all(
            (forced and kind == "absent")
            or (kind == "file" and disk.writable(k) and disk.entries[k].made)
            or (recursive and kind == "directory" and disk.writable(k) and disk.entries[k].made)
            for k, kind in zip(known, kinds, strict=True)
        )
    if name in {"mv", "cp"} and len(known) == 2:
        return (
            kinds[0] == "file"
            and disk.entries[known[0]].made
            and kinds[1] == "absent"
            and disk.writable(known[1])
            and (name == "cp" or disk.writable(known[0]))
        )
    return False


_CHANGERS = frozenset({"mkdir", "touch", "rm", "rmdir", "mv", "cp"})
_HANDLERS: dict[str, Handler] = {
    "cat": _cat,
    "head": _head_tail(last=False),
    "tail": _head_tail(last=True),
    "wc": _wc,
    "ls": _ls,
    "pwd": _pwd,
    "echo": _echo,
    "printf": _printf,
    "grep": _grep,
    "[": _test,
    "test": _test,
    "cd": _cd,
    "true": lambda _machine, _words, _stdin: ("", 0),
    "false": lambda _machine, _words, _stdin: ("", 1),
    **{name: _change(name) for name in _CHANGERS},
}


# --- what a command that ran leaves -----------------------------------------------------------


def _effects(pipeline: Pipeline, worked: bool, machine: Machine) -> None:
    if len(pipeline.commands) > 1 and any(command.writes for command in pipeline.commands[:-1]):
        worked = False
    commands = pipeline.commands
    outcome: tuple[str, int] | None = None
    trial = machine.copy()
    try:
        outcome = _pipe(pipeline, trial)
    except _UnsureError:
        outcome = None
    if outcome is not None and (worked or not outcome[1]):
        machine.disk, machine.cwd = trial.disk, trial.cwd
        return
    for command in commands:
        name, words = command.words[0], list(command.words[1:])
        _written(machine, command, worked and len(commands) == 1)
        if name == "cd":
            _moved(machine, words, worked)
        elif name in _CHANGERS:
            _apply(machine, name, words, worked)
        elif name not in _HANDLERS and not only_reads(
            " ".join([name, *(_quote(w) for w in words)])
        ):
            machine.disk.forget_all()
            if name in {".", "source", "eval", "pushd", "popd"}:
                machine.cwd = None


def _quote(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _written(machine: Machine, command: Command, worked: bool) -> None:
    """Take in that a command's output went to its files, which were opened before it ran."""
    disk, here = machine.disk, machine.cwd
    writes = [(path, appended) for path, appended in command.writes if path != "/dev/null"]
    keys = [disk.key(path, here) for path, _ in writes]
    if any(key is None for key in keys):
        disk.forget_all()
        return
    known = [key for key in keys if key is not None]
    if not worked or any(_as_directory(path) for path, _ in writes):
        for key in known:
            disk.forget(key)
        return
    itself = any(_reads(command, key, machine) for key in known)
    for key, (_, appended) in zip(known, writes, strict=True):
        old = "" if disk.status(key) == "absent" or not appended else disk.content(key)
        disk.write(key, None if itself else old)
    if itself or not known or command.writes[-1][0] == "/dev/null":
        return
    try:
        if command.words[0] in {"cd", *_CHANGERS}:
            return  # they print nothing when they work
        text = _output(command, machine, None)[0]
    except _UnsureError:
        disk.write(known[-1], None)
        return
    old = disk.content(known[-1])
    whole = None if old is None or len(old) + len(text) > _LARGEST else old + text
    disk.write(known[-1], whole)


def _moved(machine: Machine, words: list[str], worked: bool) -> None:
    key = machine.disk.key(words[0], machine.cwd) if len(words) == 1 else None
    if not worked or key is None or words[0].startswith("-"):
        machine.cwd = None
        return
    machine.cwd = key
    if machine.disk.status(key) != "directory":
        machine.disk.make_directory(key, empty=False, made=False)


def _apply(machine: Machine, name: str, words: list[str], worked: bool) -> None:
    disk = machine.disk
    paths = [word for word in words if not word.startswith("-")]
    options = "".join(word for word in words if word.startswith("-"))
    keys = [disk.key(path, machine.cwd) for path in paths]
    if any(key is None for key in keys) or (options and not re.fullmatch(r"[-prRfv]+", options)):
        disk.forget_all()
        return
    if name in {"rm", "rmdir"} and any(path.rsplit("/", 1)[-1] in {".", ".."} for path in paths):
        disk.forget_all()
        return
    if name == "touch" and any(map(_as_directory, paths)):
        worked = False
    known = [key for key in keys if key is not None]
    if not worked:
        for key in known:
            disk.forget(key)
        if name in {"mv", "cp"} and known:
            disk.forget(known[-1])
        return
    if name == "mkdir":
        for key in known:
            # With -p it may have been there before; what was in it is then not known.
            disk.make_directory(key, empty="p" not in options or disk.status(key) == "absent")
    elif name == "touch":
        for key in known:
            if disk.status(key) == "absent":
                disk.write(key, "")
            elif disk.status(key) not in {"file", "directory"}:
                disk.forget(key)  # a file, a directory or what a link leads to
    elif name in {"rm", "rmdir"}:
        for key in known:
            if "f" in options and disk.status(key) in {None, "absent"}:
                disk.miss(key)  # -f is content when not even the directory is there
            else:
                disk.remove(key)
    else:
        _transfer(disk, name, known, bool(re.search(r"[rR]", options)))


def _transfer(disk: Disk, name: str, keys: list[str], recursive: bool) -> None:
    """Take in `mv` or `cp` of keys[:-1] to keys[-1], which worked."""
    if len(keys) < 2:
        disk.forget_all()
        return
    *sources, destination = keys
    into = disk.status(destination) == "directory" or len(sources) > 1
    if not into and disk.status(destination) not in {"absent", "file"}:
        # Whether it became a directory's entry or a name of its own is not known.
        for source in sources if name == "mv" else []:
            disk.remove(source)
        disk.forget(destination)
        return
    for source in sources:
        target = posixpath.join(destination, posixpath.basename(source)) if into else destination
        target = posixpath.normpath(target)
        kind = disk.status(source)
        if name == "mv":
            if kind is None:
                disk.remove(source)
                disk.forget(target)
            else:
                disk.move(source, target)
        elif kind == "file" and not recursive:
            disk.write(target, disk.content(source))
        else:
            disk.forget(target)


# --- what reading shows -----------------------------------------------------------------------


def _learn(command: str, text: str, succeeded: bool | None, machine: Machine) -> None:
    """Take in what a reading command printed, where that says something for certain."""
    pipelines = literal(command)
    if not pipelines or len(pipelines) != 1 or len(pipelines[0].commands) != 1 or not succeeded:
        return
    one = pipelines[0].commands[0]
    words = one.words
    if len(text) > _LARGEST and words[0] != "cat":
        return
    if words == ("pwd",) and re.fullmatch(r"/[^\n]*\n?", text):
        machine.cwd = machine.disk.key(text.rstrip("\n"))
    elif len(words) == 2 and words[0] == "cat" and not words[1].startswith("-") and not one.writes:
        key = machine.disk.key(words[1], machine.cwd)
        if key is not None:
            machine.disk.write(key, text, made=False)
    elif words[0] == "ls" and set(words[1:2]) <= {"-A", "-1A"} and len(words) in {2, 3}:
        _listed(machine, words[2] if len(words) == 3 else ".", text)


def _listed(machine: Machine, path: str, text: str) -> None:
    """Take in `ls -A`: all names, though not what they are."""
    key = machine.disk.key(path, machine.cwd)
    names = text.split("\n")[:-1]
    if key is None or (len(names) == 1 and machine.disk.status(key) != "directory"):
        return
    kinds: dict[str, Kind] = {}
    for name in names:
        known = machine.disk.status(posixpath.normpath(posixpath.join(key, name)))
        if known in {None, "absent"} or re.search(r"[^\w.+-]", name):
            return
        kinds[name] = known or "file"
    machine.disk.list(key, kinds)
