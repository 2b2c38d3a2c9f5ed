"""Modules that a server does not import at its start."""

from __future__ import annotations

import subprocess
import sys


def test_the_http_client_and_cel_are_imported_when_they_are_needed():
    unwanted = "{'aiohttp', 'yarl', 're2', 'bridgehead.apiserver.cel', 'bridgehead.apiserver.admission.evaluation'}"
    program = f"import sys, bridgehead.apiserver.serve; print(*{unwanted} & sys.modules.keys())"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert (result.stdout.strip(), result.returncode) == ("", 0), result.stderr


def test_the_audit_log_and_encryption_are_imported_when_they_are_configured():
    program = "import sys, bridgehead.apiserver.serve; print(*sorted(sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    loaded = set(result.stdout.split())
    assert "bridgehead.apiserver.audit.trail" in loaded, result.stderr
    assert not loaded & {"bridgehead.apiserver.audit.auditor", "bridgehead.storage.encryption", "nacl"}
