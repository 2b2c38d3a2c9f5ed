"""Removal of a cgroup whose processes end. No call blocks."""

from __future__ import annotations

import contextlib
import functools
from typing import Final

from bridgehead.kubelet.runtimes.isolation.container_cgroups import Cgroup

from .reactor import Reactor

_RETRY_SECONDS: Final = 0.1


def remove_cgroup(reactor: Reactor, group: Cgroup) -> None:
    """Kill what is left in the cgroup and remove it; tried again while a process has not ended."""
    with contextlib.suppress(OSError):
        group.kill()
        if group.remove():
            return
    reactor.call_later(_RETRY_SECONDS, functools.partial(remove_cgroup, reactor, group))
