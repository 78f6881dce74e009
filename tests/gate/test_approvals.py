"""An approval fits one action, and who may give it."""

# ruff: noqa: E501

from __future__ import annotations

import asyncio
import io
import os
import sys
import time
from typing import Any, TextIO

import pytest
from rich.console import Console

from lwm_agents.gate.approvals import (
    Approval,
    ApprovalRequest,
    Approver,
    CallbackApprover,
    NoApprover,
    YesApprover,
    approve,
    matches,
)
from lwm_agents.gate.terminal import TerminalApprover, rendered, shortened, visible
from lwm_agents.values import Effect, Observation

NOW = 1_000.0


def request(**changes: Any) -> ApprovalRequest:
    values: dict[str, Any] = {
        "tool": "pay",
        "arguments": {"amount": 82_000, "to": "acme"},
        "effects": {"external"},
        "tool_hash": "abc",
        "cwd": "/p",
        "root_or_url": "/p",
        "session": "s1",
        "expires_at": NOW + 60,
    }
    return ApprovalRequest(**(values | changes))


CHANGES: list[dict[str, Any]] = [
    {"tool": "pay2"},
    {"arguments": {"amount": 820_000, "to": "acme"}},
    {"arguments": {"amount": 82_000.0, "to": "acme"}},
    {"arguments": {"amount": "82000", "to": "acme"}},
    {"arguments": {"amount": 82_000, "to": "acme", "memo": None}},
    {"arguments": {"amount": 82_000}},
    {"tool_hash": "abd"},
    {"tool_hash": None},
    {"cwd": "/q"},
    {"root_or_url": "https://example.com"},
    {"session": "s2"},
    {"expires_at": NOW + 61},
]


@pytest.mark.parametrize("change", CHANGES)
def test_an_approval_of_one_call_is_none_of_another(change: dict[str, Any]) -> None:
    approval = approve(request(), "me", NOW)
    assert matches(approval, request(), NOW)
    assert not matches(approval, request(**change), NOW)


def test_every_bound_field_is_among_the_changes() -> None:
    bound = set(ApprovalRequest.model_fields) - {"effects", "prediction", "difference"}
    assert {key for change in CHANGES for key in change} == bound


def test_the_order_of_arguments_does_not_matter() -> None:
    assert request(arguments={"to": "acme", "amount": 82_000}).digest == request().digest


def test_fields_can_not_be_shifted_into_each_other() -> None:
    assert request(cwd="/p/", root_or_url="p").digest != request(cwd="/p", root_or_url="/p").digest


def test_an_approval_expires_and_does_not_begin_before_it_was_given() -> None:
    approval = approve(request(), "me", NOW)
    assert matches(approval, request(), NOW + 59.9)
    assert not matches(approval, request(), NOW + 60)
    assert not matches(approval, request(), NOW - 1)
    short = approval.model_copy(update={"expires_at": NOW + 5})
    assert not matches(short, request(), NOW + 5)


def test_each_approval_has_its_own_id() -> None:
    assert approve(request(), "me").id != approve(request(), "me").id


async def test_nobody_to_ask_means_no() -> None:
    assert await NoApprover().decide(request()) is None


@pytest.mark.parametrize(
    ("effects", "yes"),
    [({"read"}, True), ({"write"}, True), ({"unknown"}, False), ({"destroy"}, False),
     ({"external"}, False), ({"write", "external"}, False)],
)  # fmt: skip
async def test_a_yes_beforehand_covers_reads_and_writes(effects: set[Effect], yes: bool) -> None:
    assert (await YesApprover().decide(request(effects=effects)) is not None) == yes


async def test_a_yes_beforehand_can_name_more_and_then_covers_just_that() -> None:
    approver = YesApprover({"read", "write", "external"})
    assert await approver.decide(request(effects={"external"})) is not None
    assert await approver.decide(request(effects={"external", "destroy"})) is None


async def test_only_true_from_a_callback_is_a_yes() -> None:
    async def later(_: ApprovalRequest) -> bool:
        return True

    answers: list[Any] = [lambda _: True, later]
    for function in answers:
        approval = await CallbackApprover(function, decided_by="test").decide(request())
        assert approval is not None
        assert (approval.decided_by, approval.digest) == ("test", request().digest)

    async def text(_: ApprovalRequest) -> Any:
        return "false"

    assert await CallbackApprover(lambda _: False).decide(request()) is None
    assert await CallbackApprover(text).decide(request()) is None


def test_all_are_approvers() -> None:
    for each in (NoApprover(), YesApprover(), CallbackApprover(lambda _: True), TerminalApprover()):
        assert isinstance(each, Approver)


def shown(req: ApprovalRequest, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(rendered(req, NOW))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_person_sees_what_is_asked_and_what_is_expected() -> None:
    prediction = Observation(text="paid 82,000", source="imagined", confidence=0.62)
    text = shown(
        request(prediction=prediction, difference="- 1 row", effects={"external", "destroy"})
    )
    for part in ("pay", "destroy, external", "amount = 82000", "to = acme", "in 60 s", "imagined",
                 "confidence 62%", "it has not happened", "paid 82,000", "- 1 row"):  # fmt: skip
        assert part in text


def test_a_prediction_can_not_forge_the_question() -> None:
    forged = "ok\n\nRun this for real? [y/N] y\n\x1b[2J\x1b[1A\rRun this for real? [y/N] \u202e\u200b[bold]x[/]"
    text = shown(request(prediction=Observation(text=forged, source="imagined")))
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\u202e" not in text
    assert "\\x1b[2J" in text
    assert "\\u202e\\u200b[bold]x[/]" in text
    assert all(line[0] in "╭│╰" for line in text.splitlines())


def test_arguments_and_names_can_not_either() -> None:
    text = shown(request(tool="pay\n│ x", arguments={"a\nb": "1\n2\x1b[A", "c": ["\u2066", 1]}))
    assert "pay\\n│ x" in text
    assert "a\\nb = 1\\n2\\x1b[A" in text
    assert '["\\u2066",1]' in text
    assert all(line[0] in "╭│╰" for line in text.splitlines())


def test_long_lines_stay_inside_the_box() -> None:
    long = "x" * 500 + "Run this for real? [y/N] y" + "界" * 300
    text = shown(request(prediction=Observation(text=long, source="imagined")), width=60)
    assert all(line[0] in "╭│╰" and line[-1] in "╮│╯" for line in text.splitlines())


@pytest.mark.parametrize(
    "character",
    ["\x00", "\x07", "\x1b", "\x7f", "\x85", "\x9b", "\xa0", "\xad", "\u034f", "\u061c", "\u115f", "\u180e",
     "\u200b", "\u200d", "\u200f", "\u2028", "\u202a", "\u2060", "\u2066", "\u2800", "\u3000", "\u3164",
     "\ufe0f", "\ufeff", "\ufff9", "\U000e0041", "\U000e0100", "\ud800", "\ue000", "\uffff"],
)  # fmt: skip
def test_an_invisible_character_is_shown_as_an_escape(character: str) -> None:
    assert visible(character).isascii()
    assert visible(character).startswith("\\")


def test_visible_text_stays_as_it_is() -> None:
    assert visible("Grüße, 世界! [bold]\\n 👍") == "Grüße, 世界! [bold]\\n 👍"
    assert visible("a\nb\tc\r") == "a\\nb\\tc\\r"
    assert visible("a\nb", lines=True) == "a\nb"


def test_long_texts_lose_their_middle_with_a_count() -> None:
    assert shortened("abc", 3) == "abc"
    assert (
        shortened("a" * 6_000 + "b" * 3_000, 300)
        == "a" * 200 + " […8,700 characters not shown…] " + "b" * 100
    )


async def test_without_a_terminal_the_answer_is_no() -> None:
    console = Console(file=io.StringIO())
    soon = request(expires_at=time.time() + 60)
    assert await TerminalApprover(console, stdin=io.StringIO("y\n")).decide(soon) is None
    read, write = os.pipe()
    os.write(write, b"y\n")
    os.close(write)
    with os.fdopen(read) as pipe:
        assert await TerminalApprover(console, stdin=pipe).decide(soon) is None


class Screen(io.StringIO):
    """What a person sees, and whether the question is there yet."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    def write(self, text: str) -> int:
        if "[y/N]" in text:
            self.asked.set()
        return super().write(text)


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal needs POSIX")
class TestAtATerminal:
    async def ask(
        self, typed: bytes | None, *, before: bytes = b"", patience: float = 20, left: float = 60
    ) -> Approval | None:
        """Ask at a real pseudo-terminal, type once the question is there; None hangs up."""
        import pty

        ours, theirs = pty.openpty()
        screen = Screen()
        console = Console(file=screen)
        terminal: TextIO = os.fdopen(theirs, "r")
        approver = TerminalApprover(console, stdin=terminal, timeout=patience)
        try:
            os.write(ours, before)
            task = asyncio.create_task(approver.decide(request(expires_at=time.time() + left)))
            asked = asyncio.create_task(screen.asked.wait())
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
            if typed is None:
                os.close(ours)
            elif typed:
                os.write(ours, typed)
            return await task
        finally:
            terminal.close()
            if typed is not None:
                os.close(ours)

    @pytest.mark.parametrize("typed", [b"y\n", b"Y\n", b"yes\n", b" yes \n", b"n\x7fy\n"])
    async def test_yes(self, typed: bytes) -> None:
        approval = await self.ask(typed)
        assert approval is not None
        assert approval.decided_by == "terminal"

    @pytest.mark.parametrize(
        "typed",
        [b"\n", b"n\n", b"no\n", b"yy\n", b"y n\n", b"sure\n", b"\x04", b"\xff\n", "у\n".encode()],
    )
    async def test_no(self, typed: bytes) -> None:
        assert await self.ask(typed) is None

    async def test_hanging_up_is_no(self) -> None:
        assert await self.ask(None) is None

    async def test_no_answer_is_no(self) -> None:
        assert await self.ask(b"", patience=0.3) is None

    async def test_an_expired_request_is_not_even_asked(self) -> None:
        assert await self.ask(b"", left=-1) is None

    async def test_what_was_typed_before_the_question_is_dropped(self) -> None:
        assert await self.ask(b"n\n", before=b"y\n") is None
