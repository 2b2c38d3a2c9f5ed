"""The command that runs benchmarks: names it does not know, and benchmarks that fail."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks import __main__ as command


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["dns", "strage"]) == 2
    assert capsys.readouterr().err == f"no benchmark 'strage'; there are {', '.join(command.MODULES)}\n"


def test_a_failing_benchmark_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise RuntimeError("no\nspace")

    runs = {"benchmarks.dns": fail, "benchmarks.storage": lambda: [("writes", "1 ms")]}
    monkeypatch.setattr(importlib, "import_module", lambda name: SimpleNamespace(run=runs[name]))

    assert command.main(["dns", "storage"]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert "| dns | not measured: no space |" in lines
    assert "| writes | 1 ms |" in lines


def test_long_benchmarks_run_only_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measured: list[str] = []

    def measure(name: str) -> list[object]:
        measured.append(name)
        return []

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.setattr(command, "RESULTS", tmp_path)

    assert command.main([]) == 0
    assert "scale" not in measured
    assert "dns" in measured
    assert command.main(["scale"]) == 0
    assert measured[-1] == "scale"
