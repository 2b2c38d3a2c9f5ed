"""Errors of the balancer.

BalancerError
  ConfigurationInvalid   the objects contradict each other; the last valid configuration stays in force
  NotAllocated           no address for a Service, and the reason (in allocation/pending_reasons.py)
  DetectorEnded          the process of the failure detector ended before its speaker
"""

from __future__ import annotations

from bridgehead.objects.meta import ObjectReference


class BalancerError(Exception):
    """Base of the errors of this package."""


class ConfigurationInvalid(BalancerError):
    """The objects make no valid configuration. The text names the object and what to change, in one line.

    `about`: the object at fault, if it is one; the Event is about it.
    """

    def __init__(self, message: str, about: ObjectReference | None = None) -> None:
        super().__init__(" ".join(message.split()))
        self.about = about


class DetectorEnded(BalancerError):
    """The failure detector has ended; a speaker cannot go on without it."""
