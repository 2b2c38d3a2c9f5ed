"""Lines of `bridgehead status`."""

from __future__ import annotations

import pytest

from bridgehead.cli import status


@pytest.mark.parametrize(
    ("lab", "services", "line"),
    [
        ("bridgehead", [], ""),
        ("bridgehead", ["default/web"], "Services in trouble: 1 (default/web); `bridgehead doctor` explains them\n"),
        (
            "other",
            ["a/a", "b/b", "c/c", "d/d", "e/e"],
            "Services in trouble: 5 (a/a, b/b, c/c and 2 more); `bridgehead doctor --name other` explains them\n",
        ),
    ],
)
def test_services_in_trouble_are_counted(monkeypatch, lab, services, line):
    monkeypatch.setattr(status, "own_command", lambda: "bridgehead")
    assert status._describe_troubled(lab, services) == line
