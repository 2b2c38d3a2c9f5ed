"""The first process of a node's PID namespace, which builds the node's root file system and then only sleeps.

The node's kubelet, its runtime and the pods are forked into that PID namespace. A pod with hostPID therefore sees the
processes of its node, but neither the other nodes' nor the API server, whose socket on the host's loopback would be a
way out, nor a path like /proc/1/root to the cluster's keys.
"""

from __future__ import annotations

import os
import select
import signal

from bridgehead.network import syscalls

from . import roots
from .plan import LabFiles, NodePlan


class NodeInit:
    """The first process of one node: started on first use, and again after it has died.

    Used only by the lab's first process, which has one thread. Methods raise OSError.
    """

    def __init__(self, files: LabFiles, node: NodePlan, resolver: str = "") -> None:
        """`resolver` is the content of the node's resolv.conf for pods; "" for no such file."""
        self._files = files
        self._node = node
        self._resolver = resolver
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._pid = -1
        self._answers = -1  # a pipe, from `start` to `wait_built`
        self._pidfd = -1
        self._pid_namespace = -1
        self._root = -1

    def fork(self) -> int:
        """Fork as os.fork does, with the child in the node's PID namespace."""
        if self._pidfd < 0 or select.select([self._pidfd], [], [], 0)[0]:
            self._close()
            self.start()
            self.wait_built()
        syscalls.setns(self._pid_namespace, syscalls.CLONE_NEWPID)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid:
                syscalls.setns(self._own, syscalls.CLONE_NEWPID)
        return pid

    def enter_root(self) -> None:
        """Move the calling process, a forked child, to the node's root."""
        syscalls.setns(self._root, syscalls.CLONE_NEWNS)

    def start(self) -> None:
        """Fork the process, which builds the node's root."""
        reader, writer = os.pipe()
        syscalls.unshare(syscalls.CLONE_NEWPID)
        try:
            self._pid = os.fork()
            if self._pid == 0:
                self._serve(writer)
        finally:
            syscalls.setns(self._own, syscalls.CLONE_NEWPID)
        os.close(writer)
        self._answers = reader

    def wait_built(self) -> None:
        """Wait until the started process has built the node's root."""
        with open(self._answers, "rb", buffering=0) as answers:
            answer = answers.read(4096) or b"it ended"
        if answer != b"!":
            os.waitpid(self._pid, 0)
            raise OSError(f"cannot make the root file system of {self._node.name}: {answer.decode(errors='replace')}")
        self._pidfd = os.pidfd_open(self._pid)
        self._pid_namespace = os.open(f"/proc/{self._pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._root = os.open(f"/proc/{self._pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    def _close(self) -> None:
        for descriptor in (self._pidfd, self._pid_namespace, self._root):
            if descriptor >= 0:
                os.close(descriptor)
        self._pidfd = self._pid_namespace = self._root = -1

    def _serve(self, writer: int) -> None:
        """Run as the first process of the new PID namespace; never returns."""
        try:
            syscalls.set_parent_death_signal(signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(
                signal.SIGCHLD, signal.SIG_IGN
            )  # orphans become children of this process; the kernel reaps them
            syscalls.setns(self._node.netns, syscalls.CLONE_NEWNET)
            syscalls.setns(self._node.utsns, syscalls.CLONE_NEWUTS)
            roots.enter_node_root(self._files, self._node, self._resolver)
            os.write(writer, b"!")
            for stream in (1, 2):
                os.dup2(0, stream)
            # A program of its own: as a fork, this process would keep 13 MiB of copied memory.
            # argv[0] is "sleep": multi-call programs (busybox, uutils) select the applet by it.
            os.execvp("sleep", ("sleep", "infinity"))
        except BaseException as error:  # noqa: BLE001 - a forked child must not return into its parent's stack
            os.write(writer, str(error).encode()[:4096])
        finally:
            os._exit(1)
