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
    """Check that `text_of` gives equal texts for all `NAMES` of the module with any hash seed of Python."""
    program = (
        f"from {module} import *\n"
        "import hashlib; print(hashlib.sha256(''.join(map(text_of, NAMES)).encode()).hexdigest())"
    )
    root = Path(__file__).parents[2]
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            cwd=root,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{root / 'src'}:{root}"},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
