"""A pod's user namespace, and the network, UTS and IPC namespaces that belong to it.

A child makes them: a process that enters a user namespace cannot return. Source: user_namespaces(7).
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from typing import Final

from bridgehead.network import syscalls

KINDS: Final = ("user", "net", "uts", "ipc")


def make(id_base: int, count: int, settings: Mapping[str, str]) -> list[int]:
    """Return descriptors of the namespaces in the order of `KINDS`. Ids from 0 on are those from `id_base` on here.

    `settings`: file below /proc/sys that only root of the user namespace may write -> content. The caller has
    CAP_SETUID and CAP_SETGID in its own user namespace. Raises OSError.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _become(theirs, settings)
        finally:
            os._exit(1)
    theirs.close()
    try:
        with ours:
            _receive(ours)
            for name in ("uid_map", "gid_map"):
                map_ = os.open(f"/proc/{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.write(map_, f"0 {id_base} {count}".encode())
                finally:
                    os.close(map_)
            ours.send(b"!")
            return _receive(ours)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _become(parent: socket.socket, settings: Mapping[str, str]) -> None:
    """Make the namespaces in this process, and send their descriptors to its parent; with an error, its errno."""
    try:
        syscalls.set_dumpable(True)  # for its parent, to write the maps of ids; there is nothing to read in it
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        syscalls.set_dumpable(True)
        parent.send(b"0")
        if not parent.recv(1):
            return
        syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC)
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        for path, value in settings.items():
            with open(f"/proc/sys/{path}", "w", encoding="ascii") as file:
                file.write(value)
        made = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in KINDS]
        socket.send_fds(parent, [b"0"], made)
        parent.recv(1)
    except OSError as error:
        parent.send(str(error.errno or 0).encode())


def _receive(child: socket.socket) -> list[int]:
    data, descriptors, _, _ = socket.recv_fds(child, 16, len(KINDS))
    code = int(data or b"1")
    if code:
        raise OSError(code, os.strerror(code))
    return descriptors
