"""Plugin of pytest that counts the branches of pure modules that tests take; `scripts/coverage` loads it.

    pytest -p tests.branches --branches DIRECTORY

SlipCover changes the code of a module when the module is imported; all other code runs as it is, at full speed. Each
process writes DIRECTORY/PID.json: module -> [branches taken, branches not taken], a branch as [line, next line].
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import slipcover.slipcover
from slipcover import ImportManager, Slipcover

from tests.pure_modules import PURE_MODULES


class _PureModules:
    """The files that SlipCover changes; it calls `matches` as it calls that of `slipcover.FileMatcher`."""

    def matches(self, filename: str | Path | None) -> bool:
        return filename is not None and Path(filename) in _paths


_paths = set(PURE_MODULES)
if sys.version_info < (3, 12):  # later, branches are lines, too
    # No probes of lines, which the report leaves out, and no search for lines that have only annotations.
    slipcover.slipcover.findlinestarts = lambda _code: ()
    slipcover.slipcover._get_annotation_only_lines = lambda _code: frozenset()
_slipcover = Slipcover(branch=True, d_miss_threshold=-1)  # to remove probes takes longer than they do
ImportManager(_slipcover, _PureModules()).__enter__()  # for the life of the process, and before any test is imported


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--branches", type=Path, required=True, metavar="DIRECTORY")


def pytest_unconfigure(config: pytest.Config) -> None:
    counted = {
        name: [file["executed_branches"], file["missing_branches"]]
        for name, file in _slipcover.get_coverage()["files"].items()
    }
    directory: Path = config.getoption("branches")
    (directory / f"{os.getpid()}.json").write_text(json.dumps(counted))
