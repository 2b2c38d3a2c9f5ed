"""The examples in docs/recipes/, run by the tests of the packages that they extend."""

import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"


def code_of(recipe: str, number: int = 0) -> str:
    """Return one of the recipe's blocks of Python code."""
    text = (RECIPES / recipe).read_text("utf-8")
    return textwrap.dedent(re.findall(r"```python\n(.*?\n) *```", text, re.DOTALL)[number])


def example_of(recipe: str) -> ModuleType:
    """Return the recipe's Python code as a module."""
    module = ModuleType("example")
    sys.modules["example"] = module  # where dataclasses look up the types of their fields
    exec(code_of(recipe), module.__dict__)
    return module
