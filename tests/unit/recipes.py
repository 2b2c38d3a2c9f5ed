"""The examples in docs/recipes/, run by the tests of the packages that they extend."""

import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"


def code_of(recipe: str) -> str:
    """Return the recipe's Python code."""
    return textwrap.dedent(re.search(r"```python\n(.*?\n) *```", (RECIPES / recipe).read_text("utf-8"), re.DOTALL)[1])


def example_of(recipe: str) -> ModuleType:
    """Return the recipe's Python code as a module."""
    module = ModuleType("example")
    sys.modules["example"] = module  # where dataclasses look up the types of their fields
    exec(code_of(recipe), module.__dict__)
    return module
