"""Directories that a layer has without an entry in its archive, because files are in them.

Some builders (Bazel's rules, Jib, ko) write no entries for the parents of their files. A layer is unpacked without
those below it, so such a directory belongs to root with mode 0755, and would hide the attributes that lower layers
have for it: /tmp would be closed to users. An image with such layers gets one layer more, the topmost, of these
directories alone, with the attributes of the highest layer that has an entry for them. containerd copies the attributes
when it unpacks (`mkparent`); it unpacks a layer once for each chain of layers below it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Final

from bridgehead.images import manifests

from . import whiteouts
from .content import ContentStore
from .disk import disk_failure
from .file_attributes import copy_attributes, get_attribute

# Attribute of each such directory, and of the root of a layer that has some.
_IMPLIED: Final = "user.bridgehead.implied"


def mark(directory: int, name: str = ".") -> None:
    """Record that a directory, or one in a layer with this root, is implied, where the file system has attributes."""
    found = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        with contextlib.suppress(OSError):
            os.setxattr(found, _IMPLIED, b"")
    finally:
        os.close(found)


def unmark(directory: int) -> None:
    """Record that the archive has an entry for a directory."""
    with contextlib.suppress(OSError):
        os.removexattr(directory, _IMPLIED)


def add_attributes(store: ContentStore, diff_ids: Sequence[str]) -> str:
    """Add the layer with the attributes of implied directories for an image of these layers, the lowest first.

    Returns its name for `ContentStore.layer_path`, "" where none is needed. Blocks. Raises `StoreFailed`.
    """
    layers = [str(store.layer_path(diff_id)) for diff_id in dict.fromkeys(reversed(diff_ids))]
    if not any(map(_is_implied, layers[:-1])):
        return ""
    try:
        sources = _find_sources(layers)
    except OSError as error:
        raise disk_failure(error) from error
    if not sources:
        return ""
    name = manifests.digest_of(" ".join(("implied", *diff_ids)).encode())
    if not store.layer_path(name).is_dir():
        with store.new_layer(name) as directory:
            _make(str(directory), {".": layers[0], **sources})
    return name


def _find_sources(directories: Sequence[str]) -> dict[str, str]:
    """Return the directories to make, parents first: relative path -> the directory whose attributes it gets.

    `directories` is one directory in all layers that show it, the highest first.
    """
    sources = {}
    for name, found in _merge(directories).items():
        below = _find_sources(found) if len(found) > 1 else {}
        source = next((each for each in found if not _is_implied(each)), found[0])
        if below or source != found[0]:
            sources[name] = source
            sources.update({f"{name}/{path}": each for path, each in below.items()})
    return sources


def _merge(directories: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the directories in one directory of several layers, as an overlay merges them: name -> paths."""
    merged: dict[str, list[str]] = {}
    hidden: set[str] = set()  # names that hide what lower layers have
    for directory in directories:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name in hidden:
                    continue
                is_directory = entry.is_dir(follow_symlinks=False)
                if is_directory:
                    merged.setdefault(entry.name, []).append(entry.path)
                if not is_directory or whiteouts.is_opaque(entry.path):
                    hidden.add(entry.name)
    return merged


def _is_implied(directory: str) -> bool:
    return get_attribute(directory, _IMPLIED) is not None


def _make(root: str, sources: dict[str, str]) -> None:
    for path in sources:
        os.makedirs(f"{root}/{path}", exist_ok=True)
    for path in reversed(sources):  # a directory's time changes when another is made in it
        source = sources[path]
        copy_attributes(source, f"{root}/{path}", os.stat(source))
