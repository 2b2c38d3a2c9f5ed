"""The shared memory of pods: one tmpfs for each, which all its containers have at /dev/shm.

Owned by `runtime_service`. Source: containerd's CRI plug-in (`setupSandboxFiles`, `defaultShmSize`).
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from typing import Final

from bridgehead.kubelet.runtimes.runtime import Mount, RuntimeFailure, SandboxSpec
from bridgehead.network import syscalls

_PATH: Final = "/dev/shm"
_OPTIONS: Final = "mode=1777,size=64m"
_FLAGS: Final = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC


class SharedMemory:
    """`directory` is for the mounts of all pods. A pod with hostIPC has the node's shared memory."""

    def __init__(self, directory: str) -> None:
        """Remove what a runtime left that died."""
        self._directory = directory
        os.makedirs(directory, exist_ok=True)
        for name in os.listdir(directory):
            _remove(os.path.join(directory, name))

    def make(self, pod: SandboxSpec) -> None:
        """Mount an empty tmpfs of 64 MiB for a pod. Raises `RuntimeFailure`."""
        if pod.host_ipc:
            return
        path = self._path(pod)
        try:
            os.makedirs(path, exist_ok=True)  # one that could not be removed serves again
            owner = f",uid={pod.id_base},gid={pod.id_base}" if pod.id_base else ""
            syscalls.mount("shm", path, "tmpfs", _FLAGS, _OPTIONS + owner)
        except OSError as error:
            _remove(path)
            raise RuntimeFailure(f"failed to create the pod's shared memory: {error}") from error

    def remove(self, pod: SandboxSpec) -> None:
        """Remove what `make` has made."""
        if not pod.host_ipc:
            _remove(self._path(pod))

    def add_mount(self, pod: SandboxSpec, mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
        """Return the mounts of a container with that of its pod's shared memory, unless a volume takes its place."""
        if any(posixpath.normpath(mount.target) == _PATH for mount in mounts):
            return mounts
        return (*mounts, Mount(source=self._path(pod), target=_PATH))

    def _path(self, pod: SandboxSpec) -> str:
        return _PATH if pod.host_ipc else os.path.join(self._directory, pod.pod_uid)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        syscalls.umount(path, syscalls.MNT_DETACH)
    with contextlib.suppress(OSError):
        os.rmdir(path)
