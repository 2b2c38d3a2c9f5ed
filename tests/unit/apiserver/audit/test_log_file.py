"""The audit log's file: rotation, and disks that refuse."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bridgehead.apiserver.audit.log_file import AuditSink, LogFile, Rotation

_LINE = b"x" * (512 * 1024 - 1) + b"\n"  # two fill a file of one MiB
_DAY = 24 * 3600


class Clock:
    def __init__(self) -> None:
        self.now = 1_795_232_921.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def test_a_full_file_is_renamed_and_old_ones_removed(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    (tmp_path / "audit-of-another.log").touch()
    log = LogFile(path, Rotation(max_backups=2, max_size_mib=1), Clock())
    log.write([_LINE] * 9)
    log.close()
    renamed = [name for name in names(path) if name.startswith("audit-2026-11-21T03-48-")]
    assert len(renamed) == 2
    assert [(tmp_path / name).stat().st_size for name in (*renamed, "audit.log")] == [2**20, 2**20, 2**19]
    assert "audit-of-another.log" in names(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_files_are_kept_for_some_days(tmp_path: Path) -> None:
    path, clock = tmp_path / "audit.log", Clock()
    log = LogFile(path, Rotation(max_age_days=1, max_size_mib=1), clock)
    log.write([_LINE] * 5)
    assert len(names(path)) == 3
    clock.now += 2 * _DAY
    log.write([_LINE] * 2)
    assert len(names(path)) == 2, "of the renamed files only the newest"
    log.close()


def test_a_file_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for _ in range(2):
        sink = AuditSink(str(path), Rotation())
        sink.put(lambda: b"line\n")
        sink.close()
    assert path.read_bytes() == b"line\nline\n"


def test_a_full_disk_loses_events_and_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    sink = AuditSink("/dev/full", Rotation())
    for _ in range(3):
        sink.put(lambda: b"line\n")
    sink.close()
    assert sink.lost == 3
    assert [record.message for record in caplog.records] == [
        "can't write the audit log: No space left on device; events are lost until it can be written again"
    ]


def test_an_event_that_cannot_be_rendered_is_lost_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> bytes:
        raise TypeError("no JSON")

    sink = AuditSink(str(tmp_path / "audit.log"), Rotation())
    sink.put(fail)
    sink.put(lambda: b"line\n")
    sink.close()
    assert sink.lost == 1
    assert (tmp_path / "audit.log").read_bytes() == b"line\n"
    assert "can't render an audit event" in caplog.text


def test_an_unusable_path_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        AuditSink(str(tmp_path / "none" / "audit.log"), Rotation())


def test_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    sink = AuditSink("-", Rotation())
    sink.put(lambda: b"line\n")
    sink.close()
    assert capfd.readouterr().out == "line\n"
