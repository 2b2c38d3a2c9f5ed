"""Errors of images.

ImageError
├── PullFailed         the registry refused, or what it sent is unusable; the message is its reason
│   ├── NotFound       the registry has no such image
│   ├── Denied         the credentials do not suffice
│   └── Unreachable    no registry was reached: no network, or the lab is offline
├── BadImage           an index, a manifest, a configuration or a layer is not what its digest or format promises
├── BuildFailed        buildah is missing, or it failed; its own messages have the reason
└── StoreFailed        the content store cannot be read or written (a full disk)
"""

from __future__ import annotations


class ImageError(Exception):
    """Base of the errors of images; the message is one line."""


class PullFailed(ImageError):
    """The registry refused, or what it sent is unusable."""


class NotFound(PullFailed):
    """The registry has no such image."""


class Denied(PullFailed):
    """The credentials do not suffice."""


class Unreachable(PullFailed):
    """No registry was reached."""


class BadImage(ImageError):
    """An index, a manifest, a configuration or a layer is not what its digest or format promises."""


class BuildFailed(ImageError):
    """An image was not built."""


class StoreFailed(ImageError):
    """The content store cannot be read or written."""
