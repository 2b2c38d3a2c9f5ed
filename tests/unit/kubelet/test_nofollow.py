"""Files below directories that pods write to: links lead nowhere, and trees of any depth are removed."""

from __future__ import annotations

import os
import resource

import pytest

from bridgehead.kubelet.containers.container_logs import LogOptions, check_log, fallback_message, read_log, remove_logs
from bridgehead.kubelet.errors import NotServed
from bridgehead.kubelet.nofollow import open_directory, open_file, remove_tree

LINE = "2026-11-21T03:00:00.000000001Z stdout F secret\n"


@pytest.fixture
def logs(tmp_path):
    """The log directory of a container, and beside it a directory that only the kubelet may read."""
    (tmp_path / "logs" / "app").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "0.log").write_text(LINE)
    return tmp_path / "logs" / "app"


async def read(path):
    return b"".join([piece async for piece in read_log(path, LogOptions(), lambda: False)])


@pytest.mark.parametrize("link", ["file", "directory"])
async def test_a_link_instead_of_a_log_is_not_followed(logs, link):
    if link == "file":
        (logs / "0.log").symlink_to(logs.parent.parent / "private" / "0.log")
    else:
        logs.rmdir()
        logs.symlink_to(logs.parent.parent / "private")
    with pytest.raises(NotServed, match=r"failed to open log file '.*/logs/app/0\.log'") as refused:
        check_log(logs / "0.log")
    assert refused.value.status == 500
    with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
        await read(logs / "0.log")
    assert fallback_message(logs / "0.log") == ""
    if link == "directory":
        with pytest.raises(OSError, match="Not a directory"):
            remove_logs(logs, 0)
    assert (logs.parent.parent / "private" / "0.log").read_text() == LINE


def test_a_fifo_instead_of_a_log_does_not_block(logs):
    os.mkfifo(logs / "0.log")
    with pytest.raises(NotServed, match="not a regular file"):
        check_log(logs / "0.log")


async def test_regular_logs_are_opened(logs):
    check_log(logs / "none.log")
    (logs / "0.log").write_text(LINE)
    check_log(logs / "0.log")
    assert await read(logs / "0.log") == b"secret\n"
    for name in ("0.log.20261121-040000.000000001", "1.log"):
        (logs / name).touch()
    remove_logs(logs, 0)
    assert [path.name for path in logs.iterdir()] == ["1.log"]


def test_directories_without_read_permission_can_be_traversed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    with open_directory(tmp_path / "a") as directory:
        assert os.listdir(directory) == ["file"]
    with open_file(tmp_path / "a" / "file") as file:
        assert file.read() == b"x"


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_removing_a_tree_does_not_follow_links(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    tree = tmp_path / "tree"
    for path in ("a/b/c", "a/d", "e", ".hidden/x"):
        (tree / path).mkdir(parents=True)
        (tree / path / "file").touch()
        (tree / path / "link").symlink_to(outside)
    os.mkfifo(tree / "fifo")
    before = open_descriptors()
    remove_tree(tree)
    assert open_descriptors() == before
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "kept").exists()
    remove_tree(tree)
    (tmp_path / "link").symlink_to(outside)
    remove_tree(tmp_path / "link")
    assert (outside / "kept").exists()


def test_a_tree_deeper_than_the_descriptor_limit_is_removed(tmp_path):
    """The tree is made step by step, because its path exceeds PATH_MAX."""
    tree = tmp_path / "tree"
    tree.mkdir()
    current = os.open(tree, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d", dir_fd=current)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=current))
        deeper = os.open("d", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = deeper
    os.close(current)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_descriptors() + 10, hard))
    try:
        remove_tree(tree)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
