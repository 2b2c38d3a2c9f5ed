"""Mounts of a pod's volumes in a container's root file system.

Sources below a volume and mount points inside one are resolved on descriptors, because the pod can change them
meanwhile.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from typing import NamedTuple

from bridgehead.kubelet.runtimes.runtime import Mount
from bridgehead.network import syscalls

from . import descriptor_paths, mounting
from .rootfs import MissingInImage, RootFailure


class PreparedMount(NamedTuple):
    """A mount to be made. `source` is a descriptor. `mount_point` is a path without links, None if it is below another
    mount, in which it is made later."""

    mount: Mount
    source: int
    is_directory: bool
    mount_point: str | None


def bind_mounts(root: int, prepared: Collection[PreparedMount], *, with_devices: bool) -> None:
    """Make mounts in the root file system of the descriptor `root`, and close their sources. Raises `RootFailure`."""
    attributes = syscalls.MOUNT_ATTR_NOSUID | (0 if with_devices else syscalls.MOUNT_ATTR_NODEV)
    for each in prepared:
        mount = each.mount
        target = _open_target(root, each)
        try:
            tree = syscalls.clone_mount(each.source)
            try:
                read_only = syscalls.MOUNT_ATTR_RDONLY if mount.read_only else 0
                syscalls.set_mount_attributes(tree, attributes | read_only)
                syscalls.attach_mount(tree, target)
            finally:
                os.close(tree)
        except OSError as error:
            raise RootFailure(
                f'failed to mount "{mount.source}" at "{mount.target}": {mounting.describe(error)}'
            ) from error
        finally:
            os.close(target)
            os.close(each.source)


def open_source(mount: Mount) -> int:
    """Open what a mount shows, beneath its volume; returns a descriptor. Raises `RootFailure`."""
    try:
        volume = descriptor_paths.open_source(mount.source, links=mount.follows_links)
    except OSError as error:
        raise RootFailure(f'failed to mount "{mount.source}": {mounting.describe(error)}') from error
    if not mount.sub_path:
        return volume
    try:
        return descriptor_paths.open_beneath(volume, mount.sub_path)
    except OSError as error:
        reason = str(error.strerror) if isinstance(error, descriptor_paths.EscapesVolume) else mounting.describe(error)
        if mount.layers and error.errno == errno.EROFS:  # a missing directory can't be made in an image
            reason = os.strerror(errno.ENOENT)
        failure = MissingInImage if mount.layers else RootFailure
        raise failure(f'failed to prepare subPath "{mount.sub_path}" of "{mount.target}": {reason}') from error
    finally:
        os.close(volume)


def _open_target(root: int, prepared: PreparedMount) -> int:
    target = prepared.mount.target
    try:
        if prepared.mount_point is not None:
            return descriptor_paths.open_in_root(root, prepared.mount_point)
        if prepared.is_directory:
            return descriptor_paths.make_directory_in_root(root, target)
        return descriptor_paths.make_file_in_root(root, target)
    except OSError as error:
        raise RootFailure(f'failed to create mount point "{target}": {mounting.describe(error)}') from error
