"""The pure modules: those whose docstring states it."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[1]
SOURCE = _ROOT / "src"
_CHAOS = _ROOT / "chaos"
PURE = "Pure: no I/O, no clock, no randomness."


def _docstring(path: Path) -> str:
    """Return the docstring of a module on one line, "" if it has none. It is found without a parser: to parse all
    modules would take a second."""
    match = re.match(r'"""(.*?)"""', path.read_text("utf-8"), re.DOTALL)
    return " ".join(match[1].split()) if match else ""


DOCSTRINGS = {path: _docstring(path) for root in (SOURCE, _CHAOS) for path in sorted(root.rglob("*.py"))}
_PURE = [path for path, text in DOCSTRINGS.items() if PURE in text]
# The product's, whose branches `make coverage` counts, and those of the chaos run.
PURE_MODULES = [path for path in _PURE if path.is_relative_to(SOURCE)]
PURE_CHAOS_MODULES = [path for path in _PURE if path.is_relative_to(_CHAOS)]
