"""Modules that a server does not import at its start."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """The modules of a process that has imported the server."""
    program = "import sys, bridgehead.apiserver.serve; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def test_the_http_client_and_cel_are_imported_when_they_are_needed(loaded):
    unwanted = {"aiohttp", "yarl", "re2", "bridgehead.apiserver.cel", "bridgehead.apiserver.admission.evaluation"}
    assert loaded & unwanted == set()


def test_uvicorns_command_and_websockets_are_not_imported(loaded):
    assert {"uvicorn.config", "uvicorn.protocols.http.httptools_impl"} <= loaded
    assert not loaded & {"uvicorn.main", "click", "multiprocessing", "websockets"}


def test_the_audit_log_and_encryption_are_imported_when_they_are_configured(loaded):
    assert "bridgehead.apiserver.audit.trail" in loaded
    assert not loaded & {"bridgehead.apiserver.audit.auditor", "bridgehead.storage.encryption", "nacl"}
