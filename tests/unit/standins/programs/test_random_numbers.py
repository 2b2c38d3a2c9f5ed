"""Random numbers of stand-ins: their processes are forks, in which nothing seeds the generator that modules share."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import bridgehead.standins.programs

OWN_GENERATORS = {"Random", "SystemRandom"}


def uses_of_random(source: str) -> Iterator[str]:
    """Yield the names of the module `random` that a module uses."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random":
            yield node.attr


def test_programs_use_generators_of_their_own():
    directory = Path(bridgehead.standins.programs.__file__).parent
    used = {name for path in directory.rglob("*.py") for name in uses_of_random(path.read_text())}
    assert used
    assert used <= OWN_GENERATORS
