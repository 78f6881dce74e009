"""Which slot a conversation gets."""

from __future__ import annotations

from lwm_agents.engines.slots import ANY, SlotTable


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def once(table: SlotTable, key: str | None) -> int:
    slot = table.take(key)
    table.give(slot)
    return slot


def test_each_conversation_keeps_a_slot_of_its_own() -> None:
    table = SlotTable(3)
    first = {key: once(table, key) for key in "abc"}
    assert sorted(first.values()) == [0, 1, 2]
    for key in "cabbac":
        assert once(table, key) == first[key]


def test_more_conversations_than_slots_leave_the_choice_to_llama_cpp() -> None:
    table = SlotTable(2, clock=Clock())
    assert [once(table, key) for key in "abcab"] == [0, 1, ANY, ANY, ANY]


def test_slots_are_handed_out_again_once_all_was_quiet() -> None:
    clock = Clock()
    table = SlotTable(2, idle=60, clock=clock)
    assert [once(table, key) for key in "abc"] == [0, 1, ANY]
    clock.now = 59
    assert once(table, "a") == ANY
    clock.now = 100  # 41 s after the last call
    assert once(table, "a") == ANY
    clock.now = 161
    assert [once(table, key) for key in "abab"] == [0, 1, 0, 1]


def test_a_conversation_that_went_quiet_loses_its_slot_to_a_new_one() -> None:
    clock = Clock()
    table = SlotTable(2, idle=60, clock=clock)
    assert [once(table, key) for key in "ab"] == [0, 1]
    clock.now = 50
    assert once(table, "b") == 1
    clock.now = 70
    assert once(table, "c") == 0
    assert once(table, "b") == 1


def test_a_running_conversation_never_loses_its_slot() -> None:
    clock = Clock()
    table = SlotTable(2, idle=60, clock=clock)
    assert table.take("a") == 0
    clock.now = 1000
    assert once(table, "b") == 1
    table.give(0)
    assert once(table, "a") == 0


def test_one_conversation_twice_at_once_does_not_wait_for_its_own_slot() -> None:
    table = SlotTable(4)
    assert table.take("a") == 0
    assert table.take("a") == ANY


def test_calls_of_no_conversation_take_what_is_free_and_keep_nothing() -> None:
    table = SlotTable(2)
    assert once(table, "a") == 0
    assert [once(table, None) for _ in range(3)] == [1, 1, 1]
    assert [once(table, key) for key in "ba"] == [1, 0]
