"""Errors of the proxy.

ProxyError
├── CannotServe           another program uses the port of a page
├── ConfigInvalid         the configuration cannot be used; the text names the field and the reason
├── ModeUnavailable       the node lacks a facility of the mode; the text names it. The proxy cannot run in this mode.
│   └── NotPermitted      the node may have the facility, but this process may neither use nor see it
└── TransactionFailed     the kernel's rules are not what they should be; a full sync has to follow
    ├── NotFound          the transaction refers to a missing object: another program removed a part of the rules
    ├── TooBig            the transaction exceeds the netlink socket's buffer (an ordinary user cannot enlarge it)
    ├── Busy              the kernel or its tool lacks memory or a lock, or was killed; the same change may work later
    ├── Disturbed         another program changed the rules while the change was applied
    ├── NotUnderstood     the listing of the kernel's tool has an unknown format
    └── Refused           any other reason; the text is the kernel's or the tool's
"""

from __future__ import annotations


class ProxyError(Exception):
    """Base class."""


class CannotServe(ProxyError):
    """Another program uses the port of a page, and --bind-address-hard-fail is set."""


class ConfigInvalid(ProxyError):
    """The configuration is invalid; the user has to change it."""


class ModeUnavailable(ProxyError):
    """This node lacks a facility that the mode needs."""


class NotPermitted(ModeUnavailable):
    """This process lacks the permission for a facility that the mode needs."""


NOT_PERMITTED = "may not change this network namespace's nftables: CAP_NET_ADMIN is needed"
NOT_IN_KERNEL = "this kernel has no nftables (CONFIG_NF_TABLES)"


def without_nf_tables(error: OSError) -> ModeUnavailable:
    """Return the error for a kernel that does not report its ruleset."""
    if isinstance(error, PermissionError):
        return NotPermitted(NOT_PERMITTED)
    return ModeUnavailable(f"{NOT_IN_KERNEL}: {error.strerror}")


class TransactionFailed(ProxyError):
    """A transaction was not applied as a whole. `applied`: how many transactions of the same input were, before it."""

    def __init__(self, message: str, applied: int = 0) -> None:
        super().__init__(message)
        self.applied = applied


class NotFound(TransactionFailed):
    """The transaction names an object that does not exist."""


class TooBig(TransactionFailed):
    """The transaction has to be sent in parts."""


class Busy(TransactionFailed):
    """The kernel or its tool cannot do the change now. No Service is to blame."""


class Disturbed(TransactionFailed):
    """Another program changed the rules meanwhile, so that the change does not fit them. No Service is to blame."""


class NotUnderstood(TransactionFailed):
    """The kernel's rules cannot be read back, so there is no difference to send."""


class Refused(TransactionFailed):
    """The kernel or its tool refused the transaction."""
