"""agnhost's mounttest: what a container sees of files in its mounts."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable
from typing import Final

from bridgehead.standins.standin import Launch

from .flags import CommandLine

NEW_CONTENT: Final = "mount-tester new file\n"
_RETRY_SECONDS: Final = 2.0
# Kinds of files in Go's os.FileMode, before the permissions.
_KINDS: Final = (
    (stat.S_ISDIR, "d"),
    (stat.S_ISLNK, "L"),
    (stat.S_ISBLK, "D"),
    (stat.S_ISCHR, "Dc"),
    (stat.S_ISFIFO, "p"),
    (stat.S_ISSOCK, "S"),
)
_BITS: Final = ((stat.S_ISUID, "u"), (stat.S_ISGID, "g"), (stat.S_ISVTX, "t"))


def run(launch: Launch, line: CommandLine) -> int:
    """Do what the flags name, in an order on which tests rely; returns 1 if something failed."""
    launch.started()
    os.umask(0)
    tasks: list[tuple[str, Callable[[str], None]]] = [
        ("fs_type", _print_filesystem),
        *((f"new_file_{mode:04o}", _writer(mode)) for mode in (0o644, 0o666, 0o660, 0o777)),
        ("file_mode", lambda path: _write(f'mode of file "{path}": {describe_mode(os.stat(path).st_mode)}')),
        ("file_perm", lambda path: _write(f'perms of file "{path}": -{_permissions(os.stat(path).st_mode)}')),
        ("file_owner", _print_owner),
        ("file_content", _print_content),
        ("file_content_in_loop", lambda path: _print_repeatedly(path, line)),
    ]
    code = 0
    for flag, task in tasks:
        if flag in line.flags:
            try:
                task(line.flags[flag])
            except OSError as error:
                _write(f'error of {flag} for "{line.flags[flag]}": {error.strerror}')
                code = 1
    return code


def describe_mode(mode: int) -> str:
    """A file's mode as Go prints it: "drwxr-xr-x", "dtrwxrwxrwx", "-rw-r--r--", "Lrwxrwxrwx"."""
    kind = "".join(letters for check, letters in _KINDS if check(mode))
    return (kind + "".join(letter for bit, letter in _BITS if mode & bit) or "-") + _permissions(mode)


def _permissions(mode: int) -> str:
    return "".join(letter if mode >> 8 - index & 1 else "-" for index, letter in enumerate("rwxrwxrwx"))


def _writer(mode: int) -> Callable[[str], None]:
    def write(path: str) -> None:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
            file.write(NEW_CONTENT)
        _print_content(path)

    return write


def _print_filesystem(path: str) -> None:
    device = os.stat(path).st_dev
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        _write(f'mount type of "{path}": {find_filesystem(file.read(), f"{os.major(device)}:{os.minor(device)}")}')


def find_filesystem(mountinfo: str, device: str) -> str:
    """The type of the file system on a device ("0:23"), "" for an unknown device."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2:3] == [device]:
            return after.split()[0]
    return ""


def _print_owner(path: str) -> None:
    found = os.stat(path)
    _write(f'owner UID of "{path}": {found.st_uid}\nowner GID of "{path}": {found.st_gid}')


def _print_content(path: str) -> None:
    with open(path, encoding="utf-8", errors="replace") as file:
        _write(f'content of file "{path}": {file.read()}')


def _print_repeatedly(path: str, line: CommandLine) -> None:
    """Print the content again and again, to the end of the time or until it is that of a new file."""
    deadline = time.monotonic() + float(line.flags.get("retry_time", "180"))
    until_new = line.flags.get("break_on_expected_content", "true") == "true"
    while time.monotonic() < deadline:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                content = file.read()
        except OSError as error:
            _write(f"Error reading file {path}: {error.strerror}, retrying")
        else:
            _write(f'content of file "{path}": {content}')
            if until_new and content == NEW_CONTENT:
                return
        time.sleep(_RETRY_SECONDS)


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
