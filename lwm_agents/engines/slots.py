"""Which of llama.cpp's slots a conversation runs in, so that each keeps its own prefix cached.

As long as there is a slot for everybody, each conversation has one to itself. With more
conversations than slots llama.cpp chooses: it compares prompts, and keeps what it throws out of a
slot in memory. That re-evaluates part of a history now and then, where a fixed assignment would
re-evaluate all of it each time; for few conversations it is the other way round, because a new
conversation with the same system prompt is then put on top of an old one. Measured on two cores,
four turns of four conversations, prompt tokens evaluated after the first turn: on two slots 1,392
chosen by llama.cpp and 4,613 fixed; on four slots, each with a cache of its own (split KV), 252
either way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

ANY = -1
"""Leaves the choice to llama.cpp."""


class SlotTable:
    """Gives each conversation key a slot of its own while there are enough; then gives ANY.

    A conversation not heard of for `idle` seconds loses its slot. Once keys outnumbered the slots,
    nobody knows any more what lies in which, so ANY it stays until all was quiet for that long.
    """

    def __init__(
        self, slots: int, *, idle: float = 120.0, clock: Callable[[], float] = monotonic
    ) -> None:
        self._slots = slots
        self._idle = idle
        self._clock = clock
        self._lock = threading.Lock()
        self._slot: dict[str, int] = {}
        self._used: dict[str, float] = {}
        self._busy: set[int] = set()
        self._shared_at: float | None = None

    def take(self, key: str | None) -> int:
        """Return the slot for a call of this conversation (None: of no conversation), or ANY."""
        with self._lock:
            now = self._clock()
            if self._shared_at is not None:
                if now - self._shared_at < self._idle:
                    self._shared_at = now
                    return ANY
                self._shared_at = None
            self._forget(now)
            slot = self._own(key)
            if slot is None:
                self._shared_at = now
                self._slot.clear()
                self._used.clear()
                return ANY
            if key is not None:
                self._slot[key], self._used[key] = slot, now
            self._busy.add(slot)
            return slot

    def give(self, slot: int) -> None:
        """Say that the call is over for which `take` returned this slot."""
        with self._lock:
            self._busy.discard(slot)

    def _own(self, key: str | None) -> int | None:
        if key is not None and key in self._slot:
            slot = self._slot[key]
            return None if slot in self._busy else slot
        taken = set(self._slot.values()) | self._busy
        return next((slot for slot in range(self._slots) if slot not in taken), None)

    def _forget(self, now: float) -> None:
        for key in [k for k, used in self._used.items() if now - used >= self._idle]:
            if self._slot[key] not in self._busy:
                del self._slot[key], self._used[key]
