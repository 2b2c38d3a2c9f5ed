"""Delays of crashing containers, of images that cannot be pulled, and of containers that the node cannot create.

Pure: no I/O, no clock, no randomness. Source: the kubelet's `flowcontrol.Backoff` (10 s doubling to 5 min, forgotten
after 10 min without a failure); critical pods and creations wait less (docs/decisions/0017-stalls.md).
"""

from __future__ import annotations

from bridgehead.backoff import KeyedBackoff
from bridgehead.objects.critical_pods import SYSTEM_CLASSES

INITIAL_SECONDS = 10.0
MAXIMUM_SECONDS = 300.0
CRITICAL_INITIAL_SECONDS = 1.0
CRITICAL_MAXIMUM_SECONDS = 5.0
CREATION_INITIAL_SECONDS = 1.0
CREATION_MAXIMUM_SECONDS = 5.0


def image_backoff() -> KeyedBackoff[str]:
    """Return the back-off of image pulls, by container name."""
    return KeyedBackoff(INITIAL_SECONDS, MAXIMUM_SECONDS)


def creation_backoff() -> KeyedBackoff[str]:
    """Return the back-off of containers that the node cannot create, as with a full disk, by container name."""
    return KeyedBackoff(CREATION_INITIAL_SECONDS, CREATION_MAXIMUM_SECONDS)


def crash_backoff(priority_class: str) -> KeyedBackoff[str]:
    """Return the back-off of crashing containers of a pod with this `priorityClassName`, by container name."""
    if priority_class in SYSTEM_CLASSES:
        return KeyedBackoff(CRITICAL_INITIAL_SECONDS, CRITICAL_MAXIMUM_SECONDS)
    return KeyedBackoff(INITIAL_SECONDS, MAXIMUM_SECONDS)


def format_duration(seconds: float) -> str:
    """Format seconds as Go does: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
