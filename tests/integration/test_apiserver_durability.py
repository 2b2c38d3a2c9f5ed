"""Encryption at rest with rotation, backups of a running server, the audit log: with kubectl and the real process."""

from __future__ import annotations

import base64
import contextlib
import json
import time
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.forks import run_bridgehead
from tests.integration.apiserver_process import DEADLINE, ServerProcess, write_files

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

_PASSWORD = "hunter2-hunter2"
_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, nonResourceURLs: ["/readyz", "/openapi/*", "/api", "/apis"]}
- {level: Metadata, resources: [{group: "", resources: [secrets]}]}
- {level: Request, verbs: [create], resources: [{group: "", resources: [configmaps]}]}
"""


def _encryption(*keys: tuple[str, int]) -> str:
    listed = [
        {"secretbox": {"keys": [{"name": name, "secret": base64.b64encode(bytes([byte]) * 32).decode()}]}}
        for name, byte in keys
    ]
    entry = {"resources": ["secrets"], "providers": [*listed, {"identity": {}}]}
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [entry]}
    return json.dumps(document)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    write_files(tmp_path)
    (tmp_path / "keys.yaml").write_text(_encryption())
    (tmp_path / "policy.yaml").write_text(_POLICY)
    options = {
        "encryption-provider-config": tmp_path / "keys.yaml",
        "encryption-provider-config-automatic-reload": True,
        "audit-policy-file": tmp_path / "policy.yaml",
        "audit-log-path": tmp_path / "audit.log",
    }
    with contextlib.closing(ServerProcess(tmp_path, f"sqlite://{tmp_path}/state.db", options=options)) as server:
        server.start()
        server.write_kubeconfig()
        yield server


def _kubectl(server: ServerProcess, *arguments: str, stdin: str = "") -> str:
    done = server.kubectl(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _files_with(directory: Path, text: str) -> list[str]:
    return sorted(file.name for file in directory.glob("state.db*") if text.encode() in file.read_bytes())


def _replace_secrets(server: ServerProcess, until: Callable[[], bool]) -> None:
    """Replace all Secrets with themselves, again until the server follows its file of keys."""
    give_up = time.monotonic() + DEADLINE
    while not until():
        assert time.monotonic() < give_up
        _kubectl(server, "replace", "-f", "-", stdin=_kubectl(server, "get", "secrets", "-A", "-o", "json"))


def _events(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "audit.log").read_text().splitlines()]


def test_encryption_backup_and_audit(server: ServerProcess, tmp_path: Path) -> None:
    # --- Secrets that were plain are encrypted by replacing them with themselves, and so is the next key
    _kubectl(server, "create", "secret", "generic", "password", f"--from-literal=p={_PASSWORD}")
    stored = base64.b64encode(_PASSWORD.encode()).decode()
    assert _files_with(tmp_path, stored)
    (tmp_path / "keys.yaml").write_text(_encryption(("one", 1)))
    _replace_secrets(server, until=lambda: not _files_with(tmp_path, stored))
    (tmp_path / "keys.yaml").write_text(_encryption(("two", 2), ("one", 1)))
    _replace_secrets(server, until=lambda: not _files_with(tmp_path, "k8s:enc:secretbox:v1:one:"))
    server.stop()
    (tmp_path / "keys.yaml").write_text(_encryption(("two", 2)))
    server.start()

    # --- a backup of the running server
    copy = tmp_path / "copy"
    made = run_bridgehead("backup", str(copy), f"--store={tmp_path}/state.db", timeout=DEADLINE)
    assert made.returncode == 0, made.stderr
    assert stored.encode() not in copy.read_bytes()
    _kubectl(server, "create", "configmap", "later")
    refused = run_bridgehead("restore", str(copy), f"--store={tmp_path}/state.db", timeout=DEADLINE)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"bridgehead: the store {tmp_path}/state.db is in use by another process: stop it, or choose another path\n"
    )
    server.stop()
    restored = run_bridgehead("restore", str(copy), f"--store={tmp_path}/state.db", timeout=DEADLINE)
    assert restored.returncode == 0, restored.stderr
    server.start()
    secret = json.loads(_kubectl(server, "get", "secret", "password", "-o", "json"))
    assert secret["data"] == {"p": stored}
    assert server.kubectl("get", "configmap", "later").returncode == 1
    _kubectl(server, "create", "configmap", "new")

    # --- without the key
    server.stop()
    (tmp_path / "keys.yaml").write_text(_encryption(("three", 3)))
    with pytest.raises(RuntimeError, match="can't decrypt secrets default/password in the store"):
        server.start()

    # --- what has been audited
    events = _events(tmp_path)
    assert {event["stage"] for event in events} <= {"ResponseStarted", "ResponseComplete"}
    assert {event["objectRef"]["resource"] for event in events} == {"secrets", "configmaps"}
    assert stored not in (tmp_path / "audit.log").read_text(), "the level of Secrets is Metadata"
    created = [event["requestObject"]["metadata"]["name"] for event in events if "requestObject" in event]
    assert [name for name in created if name in ("later", "new")] == ["later", "new"]
    replaced = next(event for event in events if event["verb"] == "update")
    assert replaced["user"]["username"] == "kubernetes-admin"
    assert replaced["sourceIPs"] == ["127.0.0.1"]
    assert replaced["userAgent"].startswith("kubectl/")


@pytest.mark.parametrize(
    ("option", "content", "text"),
    [
        ("encryption-provider-config", "kind: x\n", "must be of kind EncryptionConfiguration"),
        ("audit-policy-file", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{}]\n", "rules[0].level: Required"),
    ],
)
def test_bad_files_end_the_start_with_one_line(option: str, content: str, text: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "bad.yaml").write_text(content)
    with contextlib.closing(ServerProcess(tmp_path, options={option: tmp_path / "bad.yaml"})) as server:
        with pytest.raises((RuntimeError, urllib.error.URLError)) as refused:
            server.start()
        (line,) = str(refused.value).splitlines()
        assert line.startswith(f"bridgehead apiserver: {tmp_path}/bad.yaml: ")
        assert text in line
