"""Modules that a server does not import at its start."""

from __future__ import annotations

import subprocess
import sys


def test_the_http_client_is_imported_when_it_is_needed():
    program = "import sys, bridgehead.apiserver.serve; print(*{'aiohttp', 'yarl'} & sys.modules.keys())"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (result.stdout.strip(), result.returncode) == ("", 0), result.stderr
