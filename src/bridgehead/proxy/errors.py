"""What stops the proxy (nftables' own errors are in `nftables/errors.py`):

ProxyError
└── ConfigInvalid   the configuration cannot be used; the text says which field and why
"""

from __future__ import annotations


class ProxyError(Exception):
    """Base of all."""


class ConfigInvalid(ProxyError):
    """The user has to change the configuration."""
