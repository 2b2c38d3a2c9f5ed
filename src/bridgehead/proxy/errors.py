"""What can go wrong with the proxy:

ProxyError
├── ConfigInvalid         the configuration cannot be used; the text says which field and why
├── ModeUnavailable       the node lacks what a mode needs; the text says what. The proxy cannot run in this mode.
│   └── NotPermitted      the node may have it, but this process may neither use it nor see it
└── TransactionFailed     the kernel's rules are not what they should be; a full sync has to follow
    ├── NotFound          it refers to what is not there: somebody removed a part of the rules
    ├── TooBig            more than the netlink socket takes at once (an ordinary user cannot enlarge it)
    ├── NotUnderstood     what the kernel's tool lists is not what it is known to print
    └── Refused           anything else; the text has the kernel's or the tool's words
"""

from __future__ import annotations


class ProxyError(Exception):
    """Base of all."""


class ConfigInvalid(ProxyError):
    """The user has to change the configuration."""


class ModeUnavailable(ProxyError):
    """This node cannot do it."""


class NotPermitted(ModeUnavailable):
    """This process cannot do it."""


NOT_PERMITTED = "may not change this network namespace's nftables: CAP_NET_ADMIN is needed"
NOT_IN_KERNEL = "this kernel has no nftables (CONFIG_NF_TABLES)"


def without_nf_tables(error: OSError) -> ModeUnavailable:
    """What it means that the kernel does not tell of its ruleset."""
    if isinstance(error, PermissionError):
        return NotPermitted(NOT_PERMITTED)
    return ModeUnavailable(f"{NOT_IN_KERNEL}: {error.strerror}")


class TransactionFailed(ProxyError):
    """Not all of it was applied."""


class NotFound(TransactionFailed):
    """Something it names is not there."""


class TooBig(TransactionFailed):
    """Has to be sent in parts."""


class NotUnderstood(TransactionFailed):
    """The kernel's rules cannot be read back, so there is no difference to send."""


class Refused(TransactionFailed):
    """The kernel or its tool did not take it."""
