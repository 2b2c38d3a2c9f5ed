"""The record of an image in a content store.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Final

import msgspec

_MOST_FINGERPRINTS: Final = 100  # of one image; the kubelet has the same bound


class ImageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An image with a name.

    `digest` is what the name means in its registry (an index or a manifest), "" for an image that was loaded from a
    file without one. `layers` are diff_ids, the lowest first; `size` is that of the download. `is_pinned`: the image
    came from a file. Perhaps no registry has it, so it stays when the disk gets full. `restricted_to`: only pods with a
    credential of one of these fingerprints may use the image without another pull; none for an image that all pods may
    use, because it came without a pod's credential. `implied`: the name of the layer with the attributes of directories
    that layers have without an entry (`implied_directories`), "" for none.
    """

    name: str
    digest: str
    manifest: str
    config: str
    layers: tuple[str, ...] = ()
    size: int = 0
    is_pinned: bool = False
    restricted_to: tuple[str, ...] = ()
    implied: str = ""

    @property
    def root_layers(self) -> tuple[str, ...]:
        """The layers of a container's root, the lowest first."""
        return (*self.layers, self.implied) if self.implied else self.layers

    @property
    def id(self) -> str:
        """The image's `imageID`: a name that a registry would understand, or the digest of the configuration."""
        return f"{_repository(self.name)}@{self.digest}" if self.digest else self.config

    def with_users_of(self, before: ImageRecord | None) -> ImageRecord:
        """Return the record of a new pull, with the pods that could use the same content under the name before."""
        if before is None or before.digest != self.digest or not self.restricted_to:
            return self
        earlier = [each for each in before.restricted_to if each not in self.restricted_to]
        users = (*earlier, *self.restricted_to)[-_MOST_FINGERPRINTS:] if before.restricted_to else ()
        return msgspec.structs.replace(self, restricted_to=users)


def _repository(name: str) -> str:
    """Return a name without its tag or digest."""
    name = name.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"
