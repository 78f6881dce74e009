"""Two names change places in one step: renameat2 of Linux, renameatx_np of macOS."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache
from typing import Any

_EXCHANGE = 2
"""RENAME_EXCHANGE of linux/fs.h, RENAME_SWAP of macOS's stdio.h."""

_CAN_NOT = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM}


@cache
def _call() -> Any:
    """Return the system's function, or None."""
    if os.name == "nt":
        return None
    name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
    call = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if call is not None:
        number, text = ctypes.c_int, ctypes.c_char_p
        call.argtypes = (number, text, number, text, ctypes.c_uint)
    return call


def exchange(one: str, other: str, one_at: int | None, other_at: int | None) -> bool:
    """Exchange two names, each in the folder of a descriptor. False: not on this system.

    Raises OSError.
    """
    call = _call()
    if call is None or one_at is None or other_at is None:
        return False
    if call(one_at, os.fsencode(one), other_at, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CAN_NOT:
        return False
    raise OSError(code, os.strerror(code), other)
