"""Rehearsed equals real: generated calls of files, shell and SQLite, compared one by one."""

from __future__ import annotations

import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "places"))

from running import compare_as, reason

from lwm_agents.places.copies import why_no_namespaces

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's"),
    pytest.mark.skipif(
        sys.platform == "linux" and why_no_namespaces() is not None,
        reason="this system lets us make no namespaces",
    ),
]

ROOT_ONLY = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become someone else"
)
USERS = ["self", pytest.param("user", marks=ROOT_ONLY)]


CALLS = 140


def opened(folder: Path) -> Path:
    """Let another user reach a folder of pytest's."""
    for above in [folder, *folder.parents]:
        if str(above) not in {"/", "/tmp"}:
            above.chmod(above.stat().st_mode | 0o055)
    return folder


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Compare as every user we can be, at the same time."""
    users = ["self", "user"] if os.geteuid() == 0 else ["self"]
    folders = {user: opened(tmp_path_factory.mktemp(user)) for user in users}
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda user: compare_as(user, folders[user], CALLS, seed=1), users)
        return dict(zip(users, found, strict=True))


def check(report: dict[str, Any], *, user: bool, calls: int, least: float) -> None:
    """What differs must have a reason that is known and written down."""
    reasons = [(reason(one, user=user), one) for one in report["differences"]]
    print(Counter(why for why, _ in reasons))
    assert [one for why, one in reasons if why is None] == []
    assert report["leaks"] == []
    if not user:  # without an index hard links split
        assert report["commits"] == []
    assert report["calls"] == calls
    assert report["identical"] >= least * calls


@pytest.mark.parametrize("user", USERS)
def test_a_rehearsal_is_what_would_happen(reports: dict[str, Any], user: str) -> None:
    no_rights = user == "user" or os.geteuid() != 0
    check(reports[user], user=no_rights, calls=CALLS, least=0.85 if no_rights else 0.98)


@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
def test_a_rehearsal_is_what_would_happen_at_length(user: str, tmp_path: Path) -> None:
    no_rights = user == "user" or os.geteuid() != 0
    report = compare_as(user, opened(tmp_path), 2_000, seed=2)
    check(report, user=no_rights, calls=2_000, least=0.85 if no_rights else 0.995)
