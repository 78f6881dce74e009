"""What nobody sees inside a copy: keys, passwords, browsers' profiles, and our own log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".config/gcloud", ".config/gh", ".config/hub"),
    *(".docker/config.json", ".netrc", ".git-credentials", ".pgpass", ".my.cnf", ".npmrc"),
    *(".pypirc", ".password-store", ".local/share/keyrings", ".config/rclone", ".terraform.d"),
    *(".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".cache/mozilla", ".cache/google-chrome", ".cache/chromium", ".thunderbird"),
    *(".config/op", ".config/sops", ".vault-token", ".huggingface", ".cache/huggingface/token"),
)
"""Below each home directory; the copy shows folders empty and files of no length."""


def hidden_paths(own: Iterable[str | os.PathLike[str]] = (), home: str | None = None) -> list[str]:
    """Return the absolute paths to hide that exist: secrets of the homes here, and our own.

    `home` is what commands take for their home, beside those that users have.
    """
    paths = [*(str(Path(path).absolute()) for path in own)]
    paths += [os.path.join(folder, name) for folder in _homes(home) for name in SECRETS]
    return [path for path in dict.fromkeys(paths) if os.path.exists(path)]


def _homes(named: str | None) -> Iterator[str]:
    """Yield the home directories of this user, and as root those of the others too."""
    homes = {os.path.expanduser("~"), named or "/"}
    with suppress(ImportError):  # only POSIX has a list of users
        import pwd

        if os.geteuid() == 0:
            homes |= {user.pw_dir for user in pwd.getpwall()}
        else:
            with suppress(KeyError):
                homes.add(pwd.getpwuid(os.geteuid()).pw_dir)
    yield from sorted(home for home in homes if os.path.isabs(home) and home != "/")
