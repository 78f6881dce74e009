"""What docs/fidelity.md shows is what comes out."""

import doctest
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "fidelity.md"


def test_the_examples_of_the_docs_are_true() -> None:
    text = DOCS.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 7
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, DOCS.name, None, None)
    failures: list[str] = []
    result = doctest.DocTestRunner().run(examples, out=failures.append)
    assert result.failed == 0, "".join(failures)
    assert result.attempted >= 20
