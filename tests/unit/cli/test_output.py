"""Commands whose standard output cannot be written to, and what they print of errors."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from bridgehead import __version__, cli
from bridgehead.cli.exit_codes import fail


def end_of(*argv: str) -> object:
    with pytest.raises(SystemExit) as end:
        cli.main(list(argv))
    return end.value.code


@pytest.mark.parametrize("write_through", [False, True])
@pytest.mark.parametrize("argv", [("--help",), ("--version",), ("up", "--help"), ("proxy", "--version")])
def test_a_full_disk_is_reported_in_one_line(
    argv: tuple[str, ...],
    write_through: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with open("/dev/full", "wb") as full, io.TextIOWrapper(full, "utf-8", write_through=write_through) as stdout:
        monkeypatch.setattr(sys, "__stdout__", stdout)
        monkeypatch.setattr(sys, "stdout", stdout)
        assert end_of(*argv) == 1
        sys.stdout.flush()  # as Python does in the end: nothing is left that would fail again
    assert capsys.readouterr().err == "bridgehead: cannot write to standard output: No space left on device\n"


def test_a_closed_pipe_is_no_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr(sys, "__stdout__", stdout)
        monkeypatch.setattr(sys, "stdout", stdout)
        assert end_of("--help") == 1
        sys.stdout.flush()  # as Python does in the end
    assert capsys.readouterr().err == ""


def test_a_closed_output_discards_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stdout__", None)
    monkeypatch.setattr(sys, "stdout", None)
    assert end_of("--help") == 0
    sys.stdout.close()


def test_output_is_written_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8") as pipe, open(writer, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr(sys, "__stdout__", stdout)
        monkeypatch.setattr(sys, "stdout", stdout)
        assert end_of("--version") == 0
        stdout.close()
        assert pipe.read() == f"bridgehead {__version__}\n"


def test_text_that_the_locale_cannot_write_is_escaped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "init.log"
    log.parent.mkdir()
    log.write_text("pulled 中\n", encoding="utf-8")
    with open(tmp_path / "output", "w", encoding="latin-1") as stdout:
        monkeypatch.setattr(sys, "__stdout__", stdout)
        monkeypatch.setattr(sys, "stdout", stdout)
        assert end_of("logs", "--state-dir", str(tmp_path)) == 0
    assert (tmp_path / "output").read_bytes() == b"pulled \\u4e2d\n"


def test_a_reason_of_a_server_is_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fail("wait", "no\x1b[2Jpe\u009b1m")
    assert capsys.readouterr().err == "bridgehead wait: no?[2Jpe?1m\n"
