"""Run blocking code in a thread of its own, with cancellation that waits for its end."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[[], T], *, stop: Callable[[], None] | None = None) -> T:
    """Return what the function returns, or raise what it raises.

    When the waiting task is cancelled, `stop` is called and the thread's end is awaited, so that
    nothing goes on behind the caller's back; without `stop` the thread is left to finish alone.
    The thread is not from the event loop's pool: a few long commands must not block every other
    user of that pool.
    """
    done: Future[T] = Future()
    context = contextvars.copy_context()

    def body() -> None:
        try:
            result = context.run(function)
        except StopIteration as error:  # which no coroutine can raise, and no future can hold
            stopped = RuntimeError("the function raised StopIteration")
            stopped.__cause__ = error
            done.set_exception(stopped)
        except BaseException as error:  # noqa: BLE001 (it is raised where it is awaited)
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=body, daemon=True, name="lwm-tool").start()
    waiting = asyncio.wrap_future(done)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        waiting.add_done_callback(_look)
        if stop is not None:
            stop()
            while not waiting.done():
                try:
                    await asyncio.wait([waiting])
                except asyncio.CancelledError:
                    continue
        raise


def _look(future: asyncio.Future[T]) -> None:
    # An exception nobody looks at is reported by asyncio as forgotten; here it is known and moot.
    if not future.cancelled():
        future.exception()
