"""Errors of the DNS server:

DnsError
├── BadPacket          bytes from the network that are no valid DNS message; the sender's fault
├── ConfigInvalid      the configuration cannot be used; the text names the directive or option and the reason
├── CannotServe        an address or port cannot be bound
└── UpstreamFailed     no upstream replied in time
"""

from __future__ import annotations


class DnsError(Exception):
    """Base of all errors here."""


class BadPacket(DnsError):
    """The bytes are no valid DNS message."""


class ConfigInvalid(DnsError):
    """The configuration has to be changed."""


class CannotServe(DnsError):
    """An address or port is in use, or not permitted."""


class UpstreamFailed(DnsError):
    """No upstream replied."""
