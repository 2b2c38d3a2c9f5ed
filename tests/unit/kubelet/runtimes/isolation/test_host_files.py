"""Copies of the host's directories, and the paths of the interpreter."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import bridgehead
from bridgehead.kubelet.runtimes.isolation.host_files import copy_tree, own_paths


def test_a_tree_is_copied(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file").write_text("text")
    (source / "sub" / "file").chmod(0o755)
    (source / "link").symlink_to("sub/file")
    (source / "dangling").symlink_to("/nowhere")
    (source / "directory").symlink_to("sub")
    target = tmp_path / "target"
    for _ in range(2):
        copy_tree(str(source), str(target))
        assert (target / "sub" / "file").read_text() == "text"
        assert (target / "sub" / "file").stat().st_mode & 0o777 == 0o755
        links = [(target / name).readlink() for name in ("link", "dangling", "directory")]
        assert [str(link) for link in links] == ["sub/file", "/nowhere", "sub"]


def test_own_paths_cover_the_interpreter_and_its_modules() -> None:
    paths = own_paths()
    for needed in (sys.executable, os.path.realpath(sys.executable), bridgehead.__file__, os.__file__):
        assert any(os.path.abspath(needed).startswith(f"{path}/") for path in paths), needed


def test_own_paths_are_unique_and_owned_by_the_caller() -> None:
    own_paths().clear()
    sys.path.insert(0, "/nowhere")
    try:
        assert own_paths()
        assert "/nowhere" not in own_paths()
    finally:
        sys.path.remove("/nowhere")
