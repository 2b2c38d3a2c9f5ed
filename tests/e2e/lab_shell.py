"""A helper process inside a lab, or on one of its nodes, that runs commands: a script for `bridgehead exec`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # an isolated Python imports nothing of the directory it starts in

from helper_process import serve  # type: ignore[import-not-found]


def run(argv: list[str]) -> dict[str, Any]:
    """Run a command, whose input is empty. A command that cannot be started has a shell's exit code."""
    try:
        done = subprocess.run(argv, input="", capture_output=True, text=True)
    except OSError as error:
        return {"returncode": 127, "stdout": "", "stderr": f"{argv[0]}: {error.strerror}\n"}
    return {"returncode": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


if __name__ == "__main__":
    serve(run)
