"""What a terminal shows at the end; pyte, a terminal emulator, is the oracle."""

from __future__ import annotations

import unicodedata

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lwm_agents.tools import terminal
from lwm_agents.tools.terminal import screen_text

CASES = {
    "plain text stays": (b"a\tb  \nc\n\n", "a\tb  \nc\n\n"),
    "nothing": (b"", ""),
    "windows line ends": (b"a\r\nb\r\r\n", "a\nb\n"),
    "carriage return": (b"abc\rX", "Xbc"),
    "carriage return, then a shorter line": (b"10%\r100%\rok\n", "ok0%\n"),
    "pip": (
        b"   \x1b[38;5;237m----\x1b[0m \x1b[32m0.0/2.1 MB\x1b[0m eta \x1b[36m-:--:--\x1b[0m"
        b"\r\x1b[2K   \x1b[38;5;70m----\x1b[0m \x1b[32m2.1/2.1 MB\x1b[0m\x1b[?25h\r\n",
        "   ---- 2.1/2.1 MB\n",
    ),
    "git": (
        b"Receiving objects:  50% (1/2)\rReceiving objects: 100% (2/2)\r"
        b"Receiving objects: 100% (2/2), done.\n",
        "Receiving objects: 100% (2/2), done.\n",
    ),
    "npm": (
        b"\x1b[?25l\xe2\xa0\x8b idealTree\x1b[1G\x1b[0K\xe2\xa0\x99 reify\x1b[1G\x1b[0K"
        b"\nadded 3 packages\n\x1b[?25h",
        "\nadded 3 packages\n",
    ),
    "tqdm, two bars": (
        b"\r0%|    |\n\r0%|    |\x1b[A\r100%|####|\n\r100%|####|\x1b[A\n\n",
        "100%|####|\n100%|####|\n",
    ),
    "blanks that wipe a bar go": (b"\r50%|##  |\r          \rdone\n", "done\n"),
    "cursor up and erase line": (b"one\ntwo\n\x1b[1A\x1b[2Kthree\n", "one\nthree\n"),
    "erase below": (b"one\ntwo\nthree\x1b[2A\r\x1b[J", ""),
    "clear": (b"old\nold\n\x1b[H\x1b[2J\x1b[3Jnew\n", "new\n"),
    "backspace": (b"abcd\b\bX\n", "abXd\n"),
    "a man page's bold": (b"N\bNA\bAM\bME\bE\n", "NAME\n"),
    "title and link": (
        b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n",
        "alink\n",
    ),
    "character set, keypad, bell, NUL": (b"\x1b(B\x1b=a\x07\x00b\x1b[m", "ab"),
    "unfinished sequence": (b"abc\x1b[12", "abc"),
    "unfinished title": (b"abc\x1b]0;never ends", "abc"),
    "lone escape at the end": (b"abc\x1b", "abc"),
    "what is left of one sequence does not make another": (b"a\x1b\x1b[0m[2Jb", "a[2Jb"),
    "not UTF-8": (b"caf\xe9\n", "caf\ufffd\n"),
    "wide characters": ("日本語\rX\n".encode(), "X 本語\n"),
    "combining": ("e\u0301a\rX\n".encode(), "Xa\n"),
    "tab kept in a line that is drawn": (b"a\tb\rX\n", "X\tb\n"),
    "cursor to a column": (b"abc\x1b[2`X\n", "aXc\n"),
    "next line": (b"abc\x1bEX\n", "abc\nX\n"),
    "save and restore": (b"ab\x1b7cd\x1b8X\n", "abXd\n"),
    "a cursor can't run off": (b"\x1b[999999999Bx\x1b[99999999999999999Dy", "\n" * 23 + "y"),
    "numbers of any length": (b"\x1b[" + b"9" * 5000 + b"Cx", " " * 79 + "x"),
}


@pytest.mark.parametrize(("raw", "shown"), CASES.values(), ids=CASES.keys())
def test_case(raw: bytes, shown: str) -> None:
    assert screen_text(raw) == shown


# No wide characters here: pyte fails where one is overwritten.
_WORDS = st.text("abcXYZ .é█", min_size=1, max_size=3)
_MOVES = st.one_of(
    st.tuples(st.sampled_from("ABCDEFGHX@Pdae"), st.integers(0, 4)),
    st.tuples(st.sampled_from("JK"), st.integers(0, 2)),
).map(lambda move: f"\x1b[{move[1]}{move[0]}")
_OTHERS = st.sampled_from(
    [
        *("\n", "\n", "\r", "\b", "\x0b", "\x1b[1;31m", "\x1b[0m", "\x1b[2;3H", "\x1b[K"),
        *("\x1b[2K", "\x1b7", "\x1b8", "\x1bD", "\x1b]0;t\x07", "\x1b[?25l"),
    ]
)


@settings(deadline=None)
@given(st.lists(st.one_of(_WORDS, _MOVES, _OTHERS), max_size=14))
def test_same_as_a_terminal(parts: list[str]) -> None:
    # No more than 14 steps of at most 6 columns: never to the edge, of which ours has none.
    drawn = "".join(parts)
    screen = pyte.Screen(100, 30)
    pyte.Stream(screen).feed(drawn.replace("\n", "\r\n"))
    expected = "\n".join(line.rstrip() for line in screen.display).rstrip("\n")
    ours = "\n".join(line.rstrip() for line in screen_text(drawn.encode()).split("\n"))
    assert ours.rstrip("\n") == expected


@given(st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    text = screen_text(raw)
    assert not set(map(ord, text)) & ({*range(32), *range(127, 160)} - {9, 10})


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], include_characters="\n\t")))
def test_text_without_control_characters_stays(text: str) -> None:
    assert screen_text(text.encode()) == text


def test_what_is_taken_for_narrow_is_narrow() -> None:
    for code in range(0x3000):
        if terminal._NARROW.fullmatch(chr(code)) and unicodedata.category(chr(code)) != "Cn":
            assert terminal._width(chr(code)) == 1, hex(code)


def test_output_made_to_take_long_is_not_followed() -> None:
    # Each of these erases a line of a million cells: a thousand times that is too much work.
    text = screen_text(b"x" * 1_000_000 + b"\x1b[1K" * 1_000 + b"end")
    assert text.endswith("end")
