"""Files that are followed: changes, replacements, and content that is refused."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from bridgehead.file_changes import FollowedFiles, follow


async def test_changes_count_once_and_refused_ones_leave_the_earlier_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_text("1")
    key.write_text("1")
    in_force: asyncio.Queue[str] = asyncio.Queue()
    refused = asyncio.Event()

    async def reload() -> None:
        if certificate.read_text() != key.read_text():
            refused.set()
            raise ValueError("not a pair")
        in_force.put_nowait(key.read_text())

    async with asyncio.timeout(30):
        files = FollowedFiles((certificate, key))
        certificate.write_text("2")  # before the first look, and before its key
        follower = asyncio.create_task(follow([(files, reload)], poll_seconds=0.001))
        await refused.wait()
        key.unlink()
        (tmp_path / "new").write_text("2")
        (tmp_path / "new").rename(key)
        assert await in_force.get() == "2"
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "pair").write_text("3")
        certificate.unlink()
        certificate.symlink_to("a/pair")
        key.unlink()
        key.symlink_to("a/pair")
        assert await in_force.get() == "3"
    follower.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await follower
    assert in_force.empty()
    assert "the earlier content stays in force: not a pair" in caplog.text


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tls\.crt"):
        FollowedFiles([tmp_path / "tls.crt"])
