import os
import sys
from pathlib import Path

import pytest
import typer

from bridgehead.cli import dashboard, dashboard_process
from bridgehead.lab.plan import LabFiles


@pytest.mark.parametrize(
    ("text", "language"), [("en", "en"), ("zh", "zh"), ("zh_CN.UTF-8", "zh"), ("ZH-Hans", "zh"), ("en-GB", "en")]
)
def test_languages(text, language):
    assert dashboard._language(text) == language


@pytest.mark.parametrize("text", ["", "fr", "klingon", "e n"])
def test_other_languages_are_refused(text):
    with pytest.raises(typer.BadParameter, match="en, zh"):
        dashboard._language(text)


@pytest.mark.parametrize(
    ("output", "address"),
    [
        (b"Dashboard of lab: http://127.0.0.1:6480/#token=a_b-C\n", "http://127.0.0.1:6480/#token=a_b-C"),
        (b"Dashboard of lab: http://127.0.0.1:6480/#token=a", ""),  # it ended in the middle
        (b"bridgehead dashboard: no\n", ""),
        (b"", ""),
    ],
)
def test_the_address_is_read_from_what_the_process_prints(output, address):
    reader, writer = os.pipe()
    try:
        os.write(writer, output)
        os.close(writer)
        assert dashboard_process._read_address(reader) == address
    finally:
        os.close(reader)


def test_a_dashboard_that_does_not_start_is_no_failure_of_the_lab(tmp_path: Path, monkeypatch):
    files = LabFiles(tmp_path)
    assert "did not start" in dashboard_process.start(files).sentence  # there is no directory of logs
    files.log("dashboard").parent.mkdir()
    program = [sys.executable, "-c", "import sys; sys.exit('no cluster')"]
    monkeypatch.setattr(dashboard_process, "_command", lambda arguments: program)
    reason = f"The dashboard did not start: {files.log('dashboard')} has the reason."
    assert dashboard_process.start(files) == ("", reason)
    assert files.log("dashboard").read_text() == "no cluster\n"


def test_the_page_that_opens_the_browser_is_for_its_owner(monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    with dashboard._opened("http://127.0.0.1:6480/#token=x"):
        path = Path(opened[0].removeprefix("file://"))
        assert "token=x" not in opened[0]
        assert "token=x" in path.read_text()
        assert path.parent.stat().st_mode & 0o077 == 0
    assert not path.exists()
