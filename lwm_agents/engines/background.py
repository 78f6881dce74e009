"""An event loop in a thread of its own, so that one pool of connections serves every caller's loop.

An HTTP session belongs to the loop it was made in. Callers come from many: the sync twins make one
each, and so does every test. So the session lives here, and calls are handed over.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines on an event loop in a daemon thread, started at first use."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether the thread has been started and not stopped."""
        return self._loop is not None

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start the coroutine on the loop; its future can be waited for from any thread."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine returns; cancelling the caller cancels it."""
        return await asyncio.wrap_future(self.submit(work))

    def stop(self, last: Coroutine[Any, Any, None]) -> None:
        """Cancel what is running, run `last`, end the thread. Blocks until that is done.

        Nothing happens where the loop was never started; a later `submit` starts a new one. Called
        on the loop's own thread, as a garbage collection may, it can't wait and only sets it off.
        """
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            last.close()
            return
        asyncio.run_coroutine_threadsafe(_cancel_all_then(last), loop).add_done_callback(
            lambda _: loop.call_soon_threadsafe(loop.stop)
        )
        if threading.current_thread() is not thread:
            thread.join()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


async def _cancel_all_then(last: Coroutine[Any, Any, None]) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last
    # A closed TLS connection needs one more turn of the loop to let go of its socket.
    await asyncio.sleep(0)
