"""Registration of a lab's DNS at systemd-resolved, with a resolvectl that only records what it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.lab.gateway.resolver import register_names

pytestmark = pytest.mark.integration

RESOLVECTL = """#!/bin/sh
echo "$@" >> {log}
[ "$1" != "{refused}" ] || {{ echo "Failed to set it: not allowed" >&2; exit 1; }}
"""


def install(directory: Path, monkeypatch: pytest.MonkeyPatch, refused: str = "") -> Path:
    log = directory / "log"
    program = directory / "resolvectl"
    program.write_text(RESOLVECTL.format(log=log, refused=refused))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/bin:/usr/bin")
    return log


def test_names_below_the_clusters_domain_go_to_its_dns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = install(tmp_path, monkeypatch)
    assert register_names("bh-dev", ["10.96.0.10", "fd00:10:96::a"], tmp_path) == ""
    assert log.read_text().splitlines() == [
        "default-route bh-dev no",
        "domain bh-dev ~cluster.local",
        "dns bh-dev 10.96.0.10 fd00:10:96::a",
    ]


def test_a_machine_without_it_gets_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = install(tmp_path, monkeypatch, refused="domain")
    refused = register_names("bh-dev", ["10.96.0.10"], tmp_path)
    assert refused == "resolvectl refuses the lab's name server (Failed to set it: not allowed)"
    assert log.read_text().splitlines()[-1] == "revert bh-dev"
    log.unlink()
    assert register_names("bh-dev", ["10.96.0.10"], tmp_path / "none") == "systemd-resolved does not run"
    assert not log.exists()
