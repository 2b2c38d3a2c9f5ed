"""Copies of images, for the root file systems of containers where the kernel refuses overlays."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from bridgehead.kubelet.nofollow import remove_tree
from bridgehead.kubelet.runtimes.isolation import mounting, tree_copy
from bridgehead.kubelet.runtimes.isolation.rootfs import RootFailure
from bridgehead.network import syscalls


def show_copy(layers: Iterable[str], directory: str, shown: str) -> None:
    """Copy layers, the lowest first, to a new directory, and mount that at the directory `shown`.

    Raises `RootFailure`.
    """
    try:
        remove_tree(Path(directory))  # of a start that was not completed
        os.makedirs(directory)
    except OSError as error:
        raise RootFailure(f"failed to make a directory for a copy of the image: {mounting.describe(error)}") from error
    mounting.mount(directory, shown, "", syscalls.MS_BIND)
    syscalls.set_mount_attributes(shown, syscalls.MOUNT_ATTR_NODEV)
    copy_layers(layers, directory)


def copy_layers(layers: Iterable[str], directory: str) -> None:
    """Copy layers, the lowest first, to a directory. Raises `RootFailure`."""
    try:
        for layer in layers:
            tree_copy.copy_directory(layer, directory)
    except OSError as error:
        raise RootFailure(f"failed to copy the image: {mounting.describe(error)}") from error
