"""The examples in docs/recipes/, run by the tests of the packages that they extend."""

import re
import textwrap
from pathlib import Path
from types import ModuleType

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"


def example_of(recipe: str) -> ModuleType:
    """Return the recipe's Python code as a module."""
    code = re.search(r"```python\n(.*?)```", (RECIPES / recipe).read_text("utf-8"), re.DOTALL)[1]
    module = ModuleType("example")
    exec(textwrap.dedent(code), module.__dict__)
    return module
