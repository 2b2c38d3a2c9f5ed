"""What can go wrong with nftables:

NftablesError
├── NftablesUnavailable   the node lacks something; the text says what. The proxy cannot run.
└── TransactionFailed     nothing of the transaction was applied
    ├── NotFound          it refers to what is not there: somebody removed a part of the ruleset
    ├── TooBig            more than the netlink socket takes at once (an ordinary user cannot enlarge it)
    ├── NotUnderstood     what nft lists is not what it is known to print
    └── Refused           anything else; the text has the kernel's or nft's words
"""

from __future__ import annotations


class NftablesError(Exception):
    """Base of all."""


class NftablesUnavailable(NftablesError):
    """The node cannot do nftables."""


class TransactionFailed(NftablesError):
    """Nothing was applied."""


class NotFound(TransactionFailed):
    """A table, chain, map or element it names is not there."""


class TooBig(TransactionFailed):
    """Has to be sent in parts."""


class NotUnderstood(TransactionFailed):
    """The kernel's tables cannot be read back, so there is no difference to send."""


class Refused(TransactionFailed):
    """The kernel or nft did not take it."""
