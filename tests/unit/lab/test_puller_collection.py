"""The removal of what no image needs, before the puller of a lab waits for requests."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bridgehead.lab import puller


def test_a_lab_has_a_puller_although_its_store_cannot_be_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    (tmp_path / "layers").mkdir()
    monkeypatch.setattr(puller, "_HERE", tmp_path)
    monkeypatch.setattr(os, "fork", fail)
    puller._collect(None, None)
    assert "the content store is not cleaned: Resource temporarily unavailable" in caplog.text
