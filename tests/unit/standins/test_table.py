"""The table of stand-ins: each is found by its image's name and documented, and no program is loaded before it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bridgehead.images.references import parse_reference
from bridgehead.standins.standin import StandIn, load_program
from bridgehead.standins.table import STAND_INS, find_stand_in

TAGS = {"myapp": "v1", "pod-test": "v0.1", "old-busybox": "1.28", "old-alpine": "3.8", "cirros": "0.6.2"}
PROGRAMS = {program for stand_in in STAND_INS for program in stand_in.programs.values()}


@pytest.mark.parametrize("stand_in", STAND_INS, ids=lambda stand_in: stand_in.name)
def test_every_stand_in_is_found_under_its_own_paths(stand_in: StandIn) -> None:
    for path in stand_in.paths:
        reference = parse_reference(f"example.com/{path}:{TAGS.get(stand_in.name, 'latest')}")
        assert reference is not None
        assert find_stand_in(reference) is stand_in


def test_the_documentation_names_every_stand_in() -> None:
    text = (Path(__file__).parents[3] / "docs" / "images.md").read_text()
    for stand_in in STAND_INS:
        assert any(path.removeprefix("library/") in text for path in stand_in.paths), stand_in.name


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_every_program_is_loaded_by_its_name(program: str) -> None:
    assert callable(load_program(program))


def test_the_runtime_loads_no_program() -> None:
    code = "import sys, bridgehead.cli.runtime; print([m for m in sys.modules if 'standins.programs' in m])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"
