"""The directive `autopath`: the search list of a pod, resolved in one query.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, Where, WrongArguments, one_argument
from bridgehead.dns.corefile.parser import Directive


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    if one_argument(directive) != "@kubernetes":
        raise WrongArguments
    draft.set(autopath=True)


AUTOPATH = Spec("autopath @kubernetes", "resolves the search list of a pod in one query", _read, Where.CLUSTER)
