"""The format of env files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.kubelet.containers.container_environment import parse_env_file
from bridgehead.kubelet.containers.start import read_env_file


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("", {}),
        ("A='1'\n", {"A": "1"}),
        ("A='1'", {"A": "1"}),
        ("\n# A comment\n  # another\nA='1'\n\nB='two words'\n", {"A": "1", "B": "two words"}),
        ("  A = 'x'  \r\nB=''\r\n", {"A": "x", "B": ""}),
        ("A='one\n# two\nthree'\nB='\"$X\"'\n", {"A": "one\n# two\nthree", "B": '"$X"'}),
        ("A='1'\nA='2'\n", {"A": "2"}),
    ],
)
def test_env_files_are_parsed(text: str, variables: dict[str, str]) -> None:
    assert parse_env_file(text) == variables


@pytest.mark.parametrize(
    ("text", "line"),
    [("A=1\n", 1), ("A='1'\n\nB\n", 3), ("A='1' # no\n", 1), ("A='1\n", 1), ("='1'", 1), ('A="1"', 1), ("A='1''2'", 1)],
)
def test_other_lines_are_errors(text: str, line: int) -> None:
    with pytest.raises(ValueError, match=f"invalid environment variable format at line {line}$"):
        parse_env_file(text)


def test_a_file_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    volumes = {"v": str(tmp_path)}
    (tmp_path / "env").write_text("é" * (32 << 10), encoding="utf-8")
    assert len(read_env_file(volumes, "v", "env") or "") == 32 << 10
    assert read_env_file(volumes, "v", "none") is None
    (tmp_path / "env").write_text("é" * (32 << 10) + "A", encoding="utf-8")
    with pytest.raises(ValueError, match="larger than 64 KiB"):
        read_env_file(volumes, "v", "env")
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(OSError, match=r"."):
        read_env_file(volumes, "v", "link")
    with pytest.raises(ValueError, match='cannot find the volume "w"'):
        read_env_file(volumes, "w", "env")
