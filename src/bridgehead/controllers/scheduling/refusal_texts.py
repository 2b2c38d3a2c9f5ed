"""The text of a FailedScheduling Event, as kube-scheduler writes it (v1.36).

Called by `placement`, `preemption` and `scheduler`. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from .filters import Reason

NO_NODES: Final = "no nodes available to schedule pods"
# The result of the plug-in for resource claims, which makes room before the preemption.
_NO_CLAIMS_TO_DEALLOCATE: Final = "no new claims to deallocate"


def explain(refused: Collection[Sequence[Reason]]) -> str:
    """Return the text for a pod that fits nowhere, without that of preemption. `refused`: the reasons of each node."""
    return count_reasons(len(refused), (str(reason) for reasons in refused for reason in reasons))


def count_reasons(nodes: int, reasons: Iterable[str]) -> str:
    """Return how many of the nodes have each reason: `0/3 nodes are available: 1 Insufficient memory, 2 ...`."""
    counts = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"0/{nodes} nodes are available: {', '.join(counts)}."


def explain_everywhere(reason: str, nodes: int) -> str:
    """Return the text for a pod that no node can have, whatever the node.

    kube-scheduler's plug-in for resource claims, which makes room before the preemption, finds no state of its own
    then: no pod is preempted, and its error ends the text.
    """
    return f"0/{nodes} nodes are available: {reason}. not found" if nodes else NO_NODES


def with_preemption(text: str, of_preemption: str) -> str:
    """Return the whole text. `of_preemption`: why no pods can be preempted; "" if it was not tried, or some can."""
    return f"{text} {_NO_CLAIMS_TO_DEALLOCATE}, preemption: {of_preemption}" if of_preemption else text
