"""The mounts of this process, as the kernel lists them."""

from __future__ import annotations

import os


class Mounted:
    """One line of mountinfo: where it is mounted, what kind it is, and with what options."""

    __slots__ = ("filesystem", "id", "kind", "options", "path")

    def __init__(self, line: str) -> None:
        fields, _, rest = line.partition(" - ")
        words = fields.split(" ")
        kind, _, filesystem = rest.split(" ", 2)
        self.id = words[0]
        self.path = _plain(words[4])
        self.options = frozenset(words[5].split(","))
        self.kind = kind
        self.filesystem = filesystem.split(",")


def read_mounts() -> list[Mounted]:
    """Return this process's mounts as the kernel lists them (proc_pid_mountinfo(5))."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        return [Mounted(line.rstrip("\n")) for line in file]


def visible_mounts() -> list[Mounted]:
    """Return the mounts that no other hides, those on top first."""
    found = []
    for one in read_mounts():
        try:
            fd = os.open(one.path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
                ids = [line.split()[1] for line in file if line.startswith("mnt_id:")]
        finally:
            os.close(fd)
        if ids == [one.id]:
            found.append(one)
    return sorted(found, key=lambda one: one.path.count("/") if one.path != "/" else 0)


def _plain(text: str) -> str:
    """Undo the kernel's escapes for blanks and backslashes."""
    for escape, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, sign)
    return text
