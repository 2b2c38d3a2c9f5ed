"""Replies to queries.

responder  what is known without asking others: names of the cluster, `hosts`, templates; most queries end here
resolver   the rest: external names, aliases, the search list of a pod (autopath)
hosts      names of `hosts` directives
rewrite    rules of `rewrite name`
template   rules of `template`
"""

from .hosts import HostTable
from .resolver import Resolver
from .responder import Responder, TransferRequest, Unresolved
from .rewrite import Rewriter
from .template import Templates

__all__ = ["HostTable", "Resolver", "Responder", "Rewriter", "Templates", "TransferRequest", "Unresolved"]
