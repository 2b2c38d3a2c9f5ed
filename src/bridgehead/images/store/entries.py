"""The meaning of an entry of a layer: where it goes, and whether it is a whiteout.

Pure: no I/O, no clock, no randomness. Source: OCI image specification, "Image Layer Filesystem Changeset".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bridgehead.images.errors import BadImage

_WHITEOUT: Final = ".wh."
_RESERVED: Final = ".wh..wh."  # of aufs; only the opaque one has a meaning in images
_OPAQUE: Final = ".wh..wh..opq"
_PATH_MAX: Final = 4096  # bytes, limits.h
_NAME_MAX: Final = 255
_XATTR_KEY: Final = "SCHILY.xattr."
# Extended attributes of overlayfs and of this project. They describe the layer, and no container sees them.
OWN_PREFIXES: Final = ("user.overlay.", "user.bridgehead.")
_KEPT_XATTRS: Final = ("user.", "security.capability")

FILE: Final = "file"
WHITEOUT: Final = "whiteout"
OPAQUE: Final = "opaque"
IGNORED: Final = "ignored"


class Target(NamedTuple):
    """`kind` is FILE, WHITEOUT (`name` in `directory` hides the lower layers' one), OPAQUE (`directory` hides all that
    lower layers have in it) or IGNORED. `directory` is relative to the layer, "." for its root; a FILE without a name
    is the root."""

    kind: str
    directory: str
    name: str


def clean_path(path: str) -> list[str]:
    """Split a path as a process with the layer as its root directory would: `..` in the root is the root."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return parts


def target_of(path: str) -> Target:
    """Raises `BadImage` for a path that no file can have."""
    if "\0" in path or len(path.encode("utf-8", "surrogateescape")) >= _PATH_MAX:
        raise BadImage(f"a layer has an invalid path: {path[:100]!r}")
    parts = clean_path(path)
    if any(len(part.encode("utf-8", "surrogateescape")) > _NAME_MAX for part in parts):
        raise BadImage(f"a layer has an invalid path: {path[:100]!r}")
    if any(part.startswith(_WHITEOUT) for part in parts[:-1]):
        return Target(IGNORED, ".", "")
    directory, name = "/".join(parts[:-1]) or ".", parts[-1] if parts else ""
    if name == _OPAQUE:
        return Target(OPAQUE, directory, "")
    if name.startswith(_RESERVED):
        return Target(IGNORED, directory, name)
    if name.startswith(_WHITEOUT):
        hidden = name.removeprefix(_WHITEOUT)
        if hidden in ("", ".", ".."):
            raise BadImage(f"a layer has an invalid whiteout: {path[:100]!r}")
        return Target(WHITEOUT, directory, hidden)
    return Target(FILE, directory, name)


def extended_attributes(headers: Mapping[str, str]) -> dict[str, bytes]:
    """Return the extended attributes in an entry's PAX headers that a container may bring along.

    Attributes of overlayfs would change what other layers show.
    """
    found = {}
    for key, value in headers.items():
        name = key.removeprefix(_XATTR_KEY)
        if name != key and name.startswith(_KEPT_XATTRS) and not name.startswith(OWN_PREFIXES):
            found[name] = value.encode("utf-8", "surrogateescape")
    return found
