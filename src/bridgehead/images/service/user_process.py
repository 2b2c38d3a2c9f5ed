"""The process that keeps the rights of the user who started the lab, for what the puller may not do itself.

The process answers each request (`user_requests`) in a child, so that it stays small and a child that blocks, as a
credential helper can, delays nobody.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from bridgehead.images.errors import ImageError
from bridgehead.network import syscalls

from . import user_requests

if TYPE_CHECKING:
    from bridgehead.images.store.blob_cache import BlobCache

log = logging.getLogger(__name__)

_CHILDREN_AT_ONCE: Final = 8
_RESOLVE: Final = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_SYMLINKS


class UserFiles(NamedTuple):
    """The user's configuration of registries, and the cache of blobs (None: this lab shares none)."""

    registries: Path
    blobs: Path | None


class Watch(Protocol):
    """The watch over the puller, which kills it when it hangs."""

    @property
    def pipe(self) -> int: ...
    def seconds_to_check(self) -> float: ...
    def check(self, *, has_beat: bool) -> None: ...


def serve(files: UserFiles, requests: socket.socket, puller: int, watch: Watch | None = None) -> int:
    """Answer requests until the process `puller`, a child, has ended. The working directory is the lab's content store.

    Returns the exit status of the process, as waitpid(2). Raises OSError, with the process ended, when there is no
    descriptor left to see its end.
    """
    children = {_open_child(puller): puller}
    while True:
        awaited = [requests.fileno(), *children] if len(children) <= _CHILDREN_AT_ONCE else [*children]
        for ready in _wait(awaited, watch):
            if ready in children:
                _, status = os.waitpid(children.pop(ready), 0)
                os.close(ready)
                if puller not in children.values():
                    for descriptor, pid in children.items():  # nobody reads their answers any more
                        os.kill(pid, signal.SIGKILL)
                        os.waitpid(pid, 0)
                        os.close(descriptor)
                    return status
            elif (child := _answer_in_child(files, requests)) is not None:
                descriptor, pid = child
                children[descriptor] = pid


def _wait(descriptors: list[int], watch: Watch | None) -> list[int]:
    """Return the readable ones of `descriptors`, none after some time when there is a watch to keep."""
    if watch is None:
        return select.select(descriptors, [], [])[0]
    readable = select.select([watch.pipe, *descriptors], [], [], watch.seconds_to_check())[0]
    watch.check(has_beat=watch.pipe in readable and bool(os.read(watch.pipe, 4096)))
    return [descriptor for descriptor in readable if descriptor != watch.pipe]


def _open_child(pid: int) -> int:
    """Return a pidfd of a child. Raises OSError, with the child ended, when there is no descriptor left."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _answer_in_child(files: UserFiles, requests: socket.socket) -> tuple[int, int] | None:
    """Answer one request in a child; returns its pidfd and process id, None if there is no child: for a datagram
    without a pipe, and without processes or descriptors."""
    datagram, descriptors, _, _ = socket.recv_fds(requests, user_requests.MAX_REQUEST, 1)
    if not descriptors:
        return None
    [descriptor] = descriptors
    try:
        pid = os.fork()
    except OSError as error:  # too many processes; the end of the pipe is the answer
        log.warning("a request of the puller fails: %s", error.strerror)
        os.close(descriptor)
        return None
    if pid == 0:
        try:
            with open(descriptor, "wb") as pipe:
                pipe.write(_answer(files, user_requests.decode(datagram)))
        except (OSError, ImageError, msgspec.MsgspecError) as error:
            log.warning("a request of the puller fails: %s", error)
        except BaseException:  # forked: must not return into the parent's stack
            log.exception("a request of the puller fails")
        finally:
            os._exit(0)
    os.close(descriptor)
    try:
        return _open_child(pid), pid
    except OSError as error:
        log.warning("a request of the puller fails: %s", error.strerror)
        return None


def _answer(files: UserFiles, request: user_requests.UserRequest) -> bytes:
    from bridgehead.images import manifests
    from bridgehead.images.store.blob_cache import BlobCache

    match request:
        case user_requests.ReadConfiguration(registry):
            from . import puller_config

            # A relative entry of PATH, by which credential helpers are found, must not lead to the lab's files.
            os.chdir("/")
            return msgspec.json.encode(puller_config.read_config(files.registries, [registry]))
        case user_requests.LendBlob(digest, size) if files.blobs is not None:
            return _lend(BlobCache(files.blobs), digest, size).encode()
        case user_requests.AddBlob(digest, size) if files.blobs is not None:
            cache = BlobCache(files.blobs)
            blob = _open_own(f"blobs/{manifests.check_digest(digest).replace(':', '/')}", os.O_RDONLY | os.O_NONBLOCK)
            with open(blob, "rb", buffering=0) as file:
                return _lend(cache, digest, size).encode() if cache.add(digest, size, file) else b""
        case user_requests.TrimBlobs() if files.blobs is not None:
            return str(BlobCache(files.blobs).trim(0)).encode()
    return b""


def _lend(cache: BlobCache, digest: str, size: int) -> str:
    directory = _open_own("ingest", os.O_RDONLY | os.O_DIRECTORY)
    try:
        return cache.lend(digest, size, directory)
    finally:
        os.close(directory)


def _open_own(path: str, flags: int) -> int:
    """Open a path of the lab's content store, without the links that the lab may have put there."""
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return syscalls.open_beneath(here, path, flags, _RESOLVE)
    finally:
        os.close(here)
