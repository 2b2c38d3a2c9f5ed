"""A container's log files: read as `kubectl logs` shows them, and removed.

Called by the kubelet's server and by pod workers. The runtime writes the CRI log format and rotates by renaming;
reading continues across a rotation. Symbolic links are not followed, since a pod may have made them. Source:
Kubernetes' `PodLogOptions` and `kuberuntime/logs`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path

import msgspec

from bridgehead.kubelet.errors import NotServed
from bridgehead.kubelet.nofollow import open_directory, open_file
from bridgehead.kubelet.runtimes.runtime import ContainerInfo
from bridgehead.objects.times import parse_time

from .context import PodContext

_CHUNK = 64 * 1024
_FALLBACK_LINES, _FALLBACK_BYTES = 80, 2048
# Polling is enough: it concerns one file, and only while a client follows it.
_FOLLOW_SECONDS = 0.1


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`since` is in seconds since the epoch; None in `tail_lines` and `limit_bytes` means no bound."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: float | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


def parse_options(query: Mapping[str, str], now: float) -> LogOptions:
    """Parse the query of a request for logs. Raises `NotServed` (400) for a malformed one."""
    try:
        since = parse_time(query["sinceTime"]) if query.get("sinceTime") else None
        if query.get("sinceSeconds"):
            since = now - int(query["sinceSeconds"])
        return LogOptions(
            follow=_is_true(query.get("follow", "")),
            previous=_is_true(query.get("previous", "")),
            timestamps=_is_true(query.get("timestamps", "")),
            since=since,
            tail_lines=int(query["tailLines"]) if query.get("tailLines") else None,
            limit_bytes=int(query["limitBytes"]) if query.get("limitBytes") else None,
        )
    except ValueError as error:
        raise NotServed(400, f"unable to decode query: {error}") from error


def _is_true(value: str) -> bool:
    return value.lower() in ("1", "true", "t")


def format_entry(entry: bytes, options: LogOptions) -> bytes | None:
    """Return the text of one log entry (a line without its newline); None if it is too old or malformed."""
    parts = entry.split(b" ", 3)
    if len(parts) < 3:
        return None
    moment, _, tag = parts[:3]
    text = parts[3] if len(parts) == 4 else b""
    if options.since is not None:
        try:
            if _seconds(moment) < options.since:
                return None
        except ValueError:
            return None
    if not tag.startswith(b"P"):
        text += b"\n"  # a partial line (tag P) has none
    return moment + b" " + text if options.timestamps else text


def _seconds(moment: bytes) -> float:
    """Parse RFC 3339 with nanoseconds; Python's parser takes microseconds at most."""
    text = moment.decode("ascii", "replace")
    whole, dot, fraction = text.rstrip("Z").partition(".")
    if not dot or not text.endswith("Z"):
        return parse_time(text)
    return parse_time(whole + "Z") + float("0." + fraction)


def tail_offset(path: Path, lines: int) -> tuple[int, int]:
    """Return the offset of the last `lines` lines of a file, and how many there are (fewer in a short file)."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if lines == 0:
            return size, 0
        found = 0
        position = end = size
        while position > 0:
            position = max(0, position - _CHUNK)
            file.seek(position)
            block = file.read(min(_CHUNK, end - position))
            at = len(block)
            if end == size and block.endswith(b"\n"):
                at -= 1  # no line begins after the last newline
            while (at := block.rfind(b"\n", 0, at)) >= 0:
                found += 1
                if found == lines:
                    return position + at + 1, lines
            end = position
    return 0, found + 1 if size else 0


def fallback_message(path: Path) -> str:
    """Return the end of a log as a termination message: 80 lines and 2048 bytes at most, as in Kubernetes."""
    try:
        offset, _ = tail_offset(path, _FALLBACK_LINES)
        with open_file(path) as file:
            file.seek(offset)
            lines = (format_entry(entry.rstrip(b"\n"), LogOptions()) for entry in file.readlines())
            text = b"".join(line for line in lines if line is not None)
    except OSError:
        return ""
    return text[-_FALLBACK_BYTES:].decode("utf-8", "replace")


def with_fallback_message(context: PodContext, info: ContainerInfo) -> ContainerInfo:
    """With terminationMessagePolicy FallbackToLogsOnError, a failed container without a message shows its log."""
    if info.message or not info.exit_code or info.state == "running":
        return info
    container = next((one for one in context.all_containers() if one.name == info.name), None)
    if container is None or container.termination_message_policy != "FallbackToLogsOnError":
        return info
    path = context.node.settings.log_path(context.pod, info.name, info.attempt)
    return msgspec.structs.replace(info, message=fallback_message(path))


def log_files(path: Path) -> list[Path]:
    """Return the log and the files that were rotated out of it, oldest first."""
    rotated = sorted(path.parent.glob(path.name + ".*"))
    return [*(p for p in rotated if not p.name.endswith((".gz", ".tmp"))), path]


def check_log(path: Path) -> None:
    """Raise `NotServed` if the log exists but can't be read, for example because it is a symbolic link."""
    try:
        open_file(path).close()
    except FileNotFoundError:
        return
    except OSError as error:
        raise NotServed(500, f"failed to open log file {str(path)!r}: {error.strerror}") from error


def remove_logs(directory: Path, attempt: int) -> None:
    """Remove the log of a container's run number `attempt` and the files rotated out of it. Raises OSError."""
    with open_directory(directory) as descriptor:
        for name in os.listdir(descriptor):
            if name.startswith(f"{attempt}.log"):
                os.unlink(name, dir_fd=descriptor)


async def read_log(path: Path, options: LogOptions, is_running: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """Yield the log in pieces; with `follow`, until the container has ended."""
    budget = options.limit_bytes
    async for entries in _read_entries(path, options, is_running):
        lines = (format_entry(entry, options) for entry in entries)
        piece = b"".join(line for line in lines if line is not None)
        if budget is not None:
            piece = piece[:budget]
            budget -= len(piece)
        if piece:
            yield piece
        if budget == 0:
            return


def _starts(path: Path, tail_lines: int | None) -> list[tuple[Path, int]]:
    """Return the files to read, each with the offset to begin at."""
    files = [file for file in log_files(path) if file.exists()]
    if tail_lines is None:
        return [(file, 0) for file in files]
    starts: list[tuple[Path, int]] = []
    left = tail_lines
    for file in reversed(files):
        offset, found = tail_offset(file, left)
        starts.insert(0, (file, offset))
        left -= found
        if left <= 0:
            break
    return starts


async def _read_entries(
    path: Path, options: LogOptions, is_running: Callable[[], bool]
) -> AsyncGenerator[list[bytes], None]:
    starts = _starts(path, options.tail_lines)
    if not starts:
        return
    for file, offset in starts[:-1]:
        with open_file(file) as older:
            older.seek(offset)
            while block := older.readlines(_CHUNK):
                yield [line.rstrip(b"\n") for line in block]
    current = open_file(starts[-1][0])
    try:
        current.seek(starts[-1][1])
        rest = b""
        while True:
            # Checked before reading, so that everything written before the exit or the rotation is read.
            alive, rotated = is_running(), options.follow and _is_rotated(path, current.fileno())
            while data := current.read(_CHUNK):
                *whole, rest = (rest + data).split(b"\n")
                yield whole
            if not options.follow:
                break
            if rotated:
                current.close()
                current, rest = open_file(path), b""
                continue
            if not alive:
                break
            await asyncio.sleep(_FOLLOW_SECONDS)
        if rest:
            yield [rest]
    finally:
        current.close()


def _is_rotated(path: Path, descriptor: int) -> bool:
    try:
        return path.lstat().st_ino != os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False
