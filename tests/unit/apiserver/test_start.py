"""Modules that a server does not import at its start."""

from __future__ import annotations

import subprocess
import sys


def test_the_http_client_is_imported_when_it_is_needed():
    program = "import sys, bridgehead.apiserver.serve; print(*{'aiohttp', 'yarl'} & sys.modules.keys())"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (result.stdout.strip(), result.returncode) == ("", 0), result.stderr


def test_the_audit_log_and_encryption_are_imported_when_they_are_configured():
    program = "import sys, bridgehead.apiserver.serve; print(*sorted(sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    loaded = set(result.stdout.split())
    assert "bridgehead.apiserver.audit.trail" in loaded, result.stderr
    assert not loaded & {"bridgehead.apiserver.audit.auditor", "bridgehead.storage.encryption", "nacl"}
