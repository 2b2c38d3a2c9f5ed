"""The process beside the lab that pulls images for its nodes: in the machine's network, with the lab's ids.

Forked by the process that starts the lab, before it ends, and replaced by a small program that only waits, with the
rights of the user who started the lab (`first_request`). When a node asks for an image, the puller's program replaces
that. A child of it gives up these rights, and answers this and all later requests; after its death the next request
starts another one. Its parent reads the user's configuration for it, and has the blobs that the user's labs share
(`user_process`). All end with the lab's first process.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from bridgehead.images.errors import ImageError
from bridgehead.images.service import user_process
from bridgehead.images.service.client import SOCKET
from bridgehead.images.service.user_process import UserFiles
from bridgehead.images.store import garbage_collection
from bridgehead.images.store.blob_cache import UNUSED_SECONDS, BlobCache
from bridgehead.images.store.content import ContentStore
from bridgehead.network import syscalls

from . import first_request, state_directories, user_namespace
from .ids import IdMap
from .part_watch import PartWatch
from .plan import LabConfig, LabFiles

log = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 1.0  # after the death of a child
_HERE: Final = Path()  # the content store is the working directory, because the lab's ids may not pass the way to it


class Puller(msgspec.Struct, frozen=True):
    """The lab that a puller works for, as its program gets it. `root` is the state directory."""

    name: str
    root: str
    offline: bool
    id_map: IdMap | None


def fork_puller(
    config: LabConfig, files: LabFiles, id_map: IdMap | None, init_pid: int, program: Sequence[str]
) -> None:
    """Fork the process. `init_pid` is the lab's first process, `program` the path and the first arguments of a program
    that calls `serve` with its last argument. The caller must have no other threads."""
    lab = os.pidfd_open(init_pid)
    try:
        if os.fork() == 0:
            try:
                _wait(Puller(config.name, str(files.root), config.offline, id_map), lab, program)
            except BaseException:  # forked: must not return into the command's stack
                log.exception("the puller ends")
            finally:
                os._exit(1)
    finally:
        os.close(lab)


def _wait(puller: Puller, lab: int, program: Sequence[str]) -> NoReturn:
    """Prepare the process, and replace it by the program that waits."""
    os.setsid()
    files = LabFiles(Path(puller.root))
    # O_NOFOLLOW: the directory belongs to the lab, which could have put a link there.
    output = os.open(files.log("puller"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    os.chdir(files.content)
    listener = _listen(puller.id_map)  # before the collection: nodes that ask meanwhile wait for an answer
    _collect(puller.id_map, state_directories.find_shared_blobs(files))
    inherited = (null, output, output, lab, listener.detach())
    _inherit(inherited)
    argument = msgspec.json.encode(puller).decode()
    os.execv(sys.executable, [sys.executable, "-I", "-S", first_request.__file__, *program, argument])


def _inherit(descriptors: Sequence[int]) -> None:
    """Make `descriptors` 0, 1, 2 and so on, for the program that replaces this one, and close all others."""
    copies = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, len(descriptors)) for descriptor in descriptors]
    for number, copy in enumerate(copies):
        os.dup2(copy, number)
    os.closerange(len(descriptors), os.sysconf("SC_OPEN_MAX"))


def serve(argument: str) -> NoReturn:
    """Run the puller in this process, whose working directory and descriptors are those of `first_request`, until its
    lab ends. `argument` is the program's last one."""
    puller = msgspec.json.decode(argument, type=Puller)
    syscalls.set_process_name("bridgehead-pull", f"bridgehead-puller {puller.name}")
    lab, listener = first_request.LAB, socket.socket(fileno=first_request.LISTENER)
    files = LabFiles(Path(puller.root))
    shared = state_directories.find_shared_blobs(files)
    for descriptor in (lab, first_request.LISTENER):
        os.set_inheritable(descriptor, False)
    while not _has_ended(lab):
        select.select([listener.fileno(), lab], [], [])
        if _has_ended(lab):
            break
        try:
            with PartWatch("the puller") as watch:
                requests, pid = _fork_server(puller, listener, lab, watch, has_shared=shared is not None)
                with requests:
                    status = user_process.serve(UserFiles(files.registries, shared), requests, pid, watch)
        except OSError as error:  # too many processes or open files; the request waits meanwhile
            log.warning("the puller cannot start, and is tried again: %s", error.strerror)
            _has_ended(lab, _PAUSE_SECONDS)
            continue
        if not _has_ended(lab, _PAUSE_SECONDS):
            log.warning("the puller ended with status %d; the next request starts it again", status)
    os._exit(0)


def _fork_server(
    puller: Puller, listener: socket.socket, lab: int, watch: PartWatch, *, has_shared: bool
) -> tuple[socket.socket, int]:
    """Fork the process that answers; returns the socket of its requests to this one, and its id. Raises OSError."""
    requests, reading = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with contextlib.ExitStack() as undo, reading:
        undo.callback(requests.close)
        pid = os.fork()
        if pid == 0:
            requests.close()
            watch.install()
            _serve(puller, listener, lab, reading, has_shared=has_shared)
        watch.watch(pid)
        undo.pop_all()
    return requests, pid


def _has_ended(lab: int, seconds: float = 0) -> bool:
    """Return whether the lab ends within some seconds."""
    return bool(select.select([lab], [], [], seconds)[0])


def _serve(puller: Puller, listener: socket.socket, lab: int, parent: socket.socket, *, has_shared: bool) -> NoReturn:
    """Answer requests in this forked process until the lab ends. `parent` has the user's configuration and shared
    blobs."""
    try:
        from bridgehead.images.service import process
        from bridgehead.images.service.configuration_reader import ConfigurationReader
        from bridgehead.images.service.shared_blobs import SharedBlobs
        from bridgehead.images.service.user_client import UserClient

        if puller.id_map is not None:
            user_namespace.enter(user_namespace.make(puller.id_map))
        user, store = UserClient(parent), ContentStore(_HERE)
        shared = SharedBlobs(user, store) if has_shared else None
        process.run(ConfigurationReader(user).find, store, listener, lab, is_offline=puller.offline, shared=shared)
    except BaseException:  # forked: must not return into the parent's stack
        log.exception("the puller ends")
    finally:
        os._exit(1)


def _collect(id_map: IdMap | None, shared: Path | None) -> None:
    """Remove what no image needs, in a child with the lab's ids, and before with the user's, for the blobs that labs
    share."""
    if not any((_HERE / name).exists() for name in ("layers", "ingest")):
        return
    try:
        pid = os.fork()
    except OSError as error:  # too many processes
        log.warning("the content store is not cleaned: %s", error.strerror)
        return
    if pid == 0:
        try:
            if shared is not None:
                _trim(shared)
            if id_map is not None:
                user_namespace.enter(user_namespace.make(id_map))
            removed = garbage_collection.collect(ContentStore(_HERE))
            if removed and removed.files:
                log.info("removed %d layers and blobs that no image needs", removed.files)
        except (OSError, ImageError) as error:
            log.warning("the content store is not cleaned: %s", error)
        except BaseException:  # forked: must not return into the parent's stack
            log.exception("the content store is not cleaned")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _trim(shared: Path) -> None:
    try:
        BlobCache(shared).trim(UNUSED_SECONDS)
    except OSError as error:
        log.warning("the blobs that labs share are not cleaned: %s", error)


def _listen(id_map: IdMap | None) -> socket.socket:
    """Listen on the puller's socket, which only root of the lab may use."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SOCKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The umask sets the mode, not chmod: the directory belongs to the lab, which could put a link in the socket's
    # place.
    umask = os.umask(0o177)
    try:
        listener.bind(SOCKET)
    finally:
        os.umask(umask)
    if id_map is not None and os.geteuid() == 0:
        os.chown(SOCKET, *id_map.root, follow_symlinks=False)
    listener.listen(128)
    return listener
