"""The README's first look in `make empty-machine`, and the figures in the output of its script."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import empty_machine
from tests.empty_machine import Visit, first_look, parse

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def test_the_first_look_of_the_readme_starts_and_stops_a_lab() -> None:
    commands = first_look(README)
    assert commands[0] == "bridgehead up --detach --offline"
    assert commands[-1] == "bridgehead down --delete"


def test_a_readme_without_a_first_look_is_an_error() -> None:
    with pytest.raises(ValueError, match="first look"):
        first_look("# Title\n\ntext\n")


def test_figures_are_taken_out_of_the_output() -> None:
    seen = parse("$ kubectl get nodes\n@step up 1500\n@size uv 2048\nnode1 Ready\n")
    assert seen == Visit(seconds={"up": 1.5}, kibibytes={"uv": 2048}, output="$ kubectl get nodes\nnode1 Ready")


def test_the_table_has_a_column_for_each_visit() -> None:
    steps = {"apt": 1.0, "pipx.apt": 2.0, "pipx": 3.0, "uv": 4.0, "up": 5.0, "look": 6.0}
    seen = Visit(seconds=steps, kibibytes={"apt": 1024, "pipx.apt": 1024, "pipx": 2048, "uv": 4096})
    lines = empty_machine.table({("trixie", "root"): seen, ("bookworm", "user"): seen}).splitlines()
    assert lines[0] == "| | Debian 13, root | Debian 12, user |"
    assert "| `uv tool install` | 4.0 s, 4 MB | 4.0 s, 4 MB |" in lines
