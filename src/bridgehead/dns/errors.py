"""What can go wrong in the DNS:

DnsError
├── BadPacket          bytes from the network that are no DNS message we can read; the sender's fault
├── ConfigInvalid      the configuration cannot be used; the text says which directive or option and why
├── CannotServe        an address or port that cannot be had
└── UpstreamFailed     no upstream gave an answer in time
"""

from __future__ import annotations


class DnsError(Exception):
    """Base of all."""


class BadPacket(DnsError):
    """Not a DNS message, or not a sound one."""


class ConfigInvalid(DnsError):
    """The user has to change the configuration."""


class CannotServe(DnsError):
    """Somebody else has the port, or we may not have it."""


class UpstreamFailed(DnsError):
    """Nobody outside answered."""
