"""Lists of GitHub's Markdown for Python's Markdown."""

from __future__ import annotations

import pytest
from documentation.markdown import for_python_markdown


@pytest.mark.parametrize(
    ("github", "python"),
    [
        ("text\n- a\n- b", "text\n\n- a\n- b"),
        ("- a\n  more\n- b", "- a\n    more\n- b"),
        ("- a\n  - b\n\n  c", "- a\n    - b\n\n    c"),
        (
            "1. a\n\n   ```sh\n   x\n     y\n   ```\n   b\n2. c",
            "1. a\n\n    ```sh\n    x\n      y\n    ```\n    b\n\n2. c",
        ),
        ("1. a\n\n   b\n2. c\n3. d", "1. a\n\n    b\n\n2. c\n3. d"),
        ("- a\n\nb\n\n    code\n", "- a\n\nb\n\n    code\n"),
        ("    - code\n", "    - code\n"),
        ("```\n- a\n  - b\n```", "```\n- a\n  - b\n```"),
        ("10. a\n\n    b", "10. a\n\n    b"),
    ],
)
def test_contents_of_items_are_indented_by_four_spaces(github: str, python: str) -> None:
    assert for_python_markdown(github) == python
