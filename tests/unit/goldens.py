"""Texts that are kept in files (UPDATE_GOLDENS=1 writes them anew), and that no order of sets may change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def check_golden(golden: Path, text: str) -> None:
    """The text is as the file has it."""
    if os.environ.get("UPDATE_GOLDENS"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


def check_hash_seeds(module: str) -> None:
    """Check that `text_of` gives equal texts for all `NAMES` of the module with this hash seed and another one."""
    program = f"import sys, {module} as module; sys.stdout.write(''.join(map(module.text_of, module.NAMES)))"
    root = Path(__file__).parents[2]
    other = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": f"{root / 'src'}:{root}"},
    ).stdout
    assert other == "".join(map(sys.modules[module].text_of, sys.modules[module].NAMES))
