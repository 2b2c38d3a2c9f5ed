"""scripts/system-packages, with an apt-get that only records what it is asked for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).parents[2] / "scripts" / "system-packages"
APT_GET = """#!/bin/sh
echo "$*" >>"$(dirname "$0")/log"
case "$*" in *missing-one*) exit 100 ;; esac
"""


def install(directory: Path, *arguments: str) -> tuple[int, str, list[str]]:
    """Return the exit code, the standard error and the packages of each call of `apt-get install`."""
    for name, text in (("apt-get", APT_GET), ("id", "#!/bin/sh\necho 0\n")):
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{directory}:{os.environ['PATH']}"}
    result = subprocess.run([SCRIPT, *arguments], env=environment, capture_output=True, text=True, check=False)
    calls = (directory / "log").read_text().splitlines()
    return result.returncode, result.stderr, [call.partition("recommends ")[2] for call in calls if "install" in call]


def test_an_optional_package_that_is_not_there_keeps_no_other_away(tmp_path: Path) -> None:
    code, error, calls = install(tmp_path, "--optional", "missing-one", "sh", "another-one")

    assert (code, error) == (0, "not installed: missing-one\n")
    assert calls == ["missing-one another-one", "missing-one", "another-one"]


def test_a_package_that_is_needed_is_an_error(tmp_path: Path) -> None:
    assert install(tmp_path, "missing-one") == (100, "", ["missing-one"])
