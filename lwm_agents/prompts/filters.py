"""Filters of shell pipelines worked out on a text: what `| head -3 | wc -l` leaves of it.

Only common forms, on ASCII, as GNU coreutils, grep and mawk treat them in the C locale.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from itertools import groupby

from lwm_agents.prompts.bash import literal

_LARGEST = 200_000  # characters
_PLAIN = re.compile(r"[A-Za-z0-9 _=,:@/-]+")
_SUMS = {"md5sum": "md5", "sha1sum": "sha1", "sha256sum": "sha256"}
_FIELDS = re.compile(r"\{ ?print (\$\d+(?: ?, ?\$\d+)*);? ?\}")


def split_pipe(command: str) -> tuple[str, str] | None:
    """Return what stands before the last `|` of a single pipeline, and its last command.

    None where there is no pipe, or where more than one pipeline, a redirection, a substitution or
    a group may be at work.
    """
    last, quote, index = -1, "", 0
    while index < len(command):
        sign = command[index]
        if quote:
            if sign == "\\" and quote == '"':
                index += 1
            elif sign == quote:
                quote = ""
            elif quote == '"' and sign in "`$":
                return None
        elif sign == "\\":
            index += 1
        elif sign in "'\"":
            quote = sign
        elif sign in ";&<>`$(){}\n#" and command[index : index + 2] not in {"{}"}:
            if sign != "}" or command[index - 1] != "{":
                return None
        elif sign == "|":
            if "|" in command[index + 1 : index + 2] or last == index - 1 >= 0:
                return None
            last = index
        index += 1
    if quote or last < 1:
        return None
    return command[:last].strip(), command[last + 1 :].strip()


def filtered(command: str, text: str) -> str | None:
    """Return what a command makes of a text on its standard input; None where that is not sure."""
    pipelines = literal(command)
    if not pipelines or len(pipelines) != 1 or len(pipelines[0].commands) != 1:
        return None
    only = pipelines[0].commands[0]
    if only.writes or only.stdin is not None or not only.words:
        return None
    name, *words = only.words
    if not text.isascii() or len(text) > _LARGEST:
        return None
    if name in _SUMS and not words:
        return f"{hashlib.new(_SUMS[name], text.encode()).hexdigest()}  -\n"
    if name == "tr":
        return _tr(words, text)
    work = _FILTERS.get(name)
    if work is None:
        return None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    found = work(words, lines)
    if found is None:
        return None
    return "".join(f"{line}\n" for line in found)


def _tr(words: list[str], text: str) -> str | None:
    sets = [{"\\n": "\n", "\\t": "\t"}.get(word, word) for word in words]
    if any(len(one) > 1 and one != "-d" for one in sets):
        return None
    if len(sets) == 2 and sets[0] == "-d":
        return text.replace(sets[1], "")
    return text.replace(sets[0], sets[1]) if len(sets) == 2 else None


Work = Callable[[list[str], list[str]], list[str] | None]


def _ends(words: list[str], lines: list[str], *, last: bool) -> list[str] | None:
    text = " ".join(words)
    found = re.fullmatch(r"(?:-n ?|--lines=|-)([+-]?)(\d+)", text) if text else None
    if text and found is None:
        return None
    sign, count = (found[1], int(found[2])) if found else ("", 10)
    if last:
        return lines[max(0, count - 1) :] if sign == "+" else lines[max(0, len(lines) - count) :]
    if sign == "+":
        return None
    return lines[: max(0, len(lines) - count)] if sign == "-" else lines[:count]


def _wc(words: list[str], lines: list[str]) -> list[str] | None:
    if words == ["-l"]:
        return [str(len(lines))]
    if words == ["-w"]:
        return [str(sum(len(line.split()) for line in lines))]
    if words == ["-c"]:
        return [str(sum(len(line) + 1 for line in lines))]
    return None


def _sort(words: list[str], lines: list[str]) -> list[str] | None:
    options = "".join(word[1:] for word in words)
    if not all(re.fullmatch("-[urn]+", word) for word in words) or {"n", "u"} <= set(options):
        return None
    if "n" in options:
        found = sorted(lines, key=lambda line: (_number(line), line))
    else:
        found = sorted(set(lines) if "u" in options else lines)
    return found[::-1] if "r" in options else found


def _number(line: str) -> float:
    found = re.match(r"\s*(-?\d+(?:\.\d+)?)", line)
    return float(found[1]) if found else 0.0


def _uniq(words: list[str], lines: list[str]) -> list[str] | None:
    if words not in ([], ["-c"], ["-d"], ["-u"]):
        return None
    runs = [(line, len(list(run))) for line, run in groupby(lines)]
    if words == ["-c"]:
        return [f"{count:7} {line}" for line, count in runs]
    if words:
        return [line for line, count in runs if (count > 1) == (words == ["-d"])]
    return [line for line, _ in runs]


def _awk(words: list[str], lines: list[str]) -> list[str] | None:
    parts = None
    if words[:1] and re.fullmatch(r"-F.", words[0]):
        parts, words = words[0][2], words[1:]
    elif words[:1] == ["-F"] and len(words) > 1 and len(words[1]) == 1:
        parts, words = words[1], words[2:]
    program = _FIELDS.fullmatch(words[0].strip()) if len(words) == 1 else None
    if program is None:
        return None
    numbers = [int(number) for number in re.findall(r"\d+", program[1])]
    out = []
    for line in lines:
        fields = line.split() if parts in {None, " "} else line.split(parts) if line else []
        given = [line, *fields]
        out.append(" ".join(given[n] if n < len(given) else "" for n in numbers))
    return out


def _cut(words: list[str], lines: list[str]) -> list[str] | None:
    found = re.fullmatch(r"(?:-d ?(.) ?)?-f ?(\d+)(-?)", " ".join(words))
    if found is None:
        return None
    sign, number, rest = found[1] or "\t", int(found[2]), bool(found[3])
    out = []
    for line in lines:
        fields = line.split(sign)
        if len(fields) == 1:
            out.append(line)
        else:
            out.append(sign.join(fields[number - 1 :] if rest else fields[number - 1 : number]))
    return out


def _grep(words: list[str], lines: list[str]) -> list[str] | None:
    options = {word for word in words if word.startswith("-")}
    patterns = [word for word in words if not word.startswith("-")]
    if options - {"-v", "-i", "-c", "-F"} or len(patterns) != 1:
        return None
    if not _PLAIN.fullmatch(patterns[0]):
        return None
    lower = "-i" in options
    wanted = patterns[0].lower() if lower else patterns[0]
    found = [
        line for line in lines if (wanted in (line.lower() if lower else line)) != ("-v" in options)
    ]
    return [str(len(found))] if "-c" in options else found


def _same(words: list[str], lines: list[str]) -> list[str] | None:
    return None if words else lines


_FILTERS: dict[str, Work] = {
    "awk": _awk,
    "cat": _same,
    "cut": _cut,
    "grep": _grep,
    "head": lambda words, lines: _ends(words, lines, last=False),
    "less": _same,
    "more": _same,
    "sort": _sort,
    "tail": lambda words, lines: _ends(words, lines, last=True),
    "uniq": _uniq,
    "wc": _wc,
}
