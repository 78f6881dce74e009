"""What all tests share: the real model, fetched once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fetch_model import FetchError, fetch


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The 0.5B model's file. Where it can't be had tests are skipped, but in CI they fail."""
    try:
        return fetch()
    except FetchError as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI needs the test model: {error}")
        pytest.skip(f"no test model: {error}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses the real model as `model`."""
    for item in items:
        if "model_path" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.model)
