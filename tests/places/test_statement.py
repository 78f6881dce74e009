"""What the database tools ask of a place, there and back as JSON."""

from __future__ import annotations

import json
import math

from lwm_agents.places.sqlite import Rows
from lwm_agents.places.statement import packed, unpacked


def test_every_kind_of_value_survives_json() -> None:
    values = (None, 1, -(2**63), 1.5, math.inf, "", "a\0b\udc80ü", b"", b"\x00\xff", 1e-300)
    tables = [
        Rows(tuple(f"c{n}" for n in range(len(values))), (values,), 7, endless=True),
        Rows((), (), 0, affected=3, last_row_id=2),
    ]
    assert unpacked(json.loads(json.dumps(packed(tables)))) == tables
