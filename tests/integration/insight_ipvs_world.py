"""`trace_world` and `ipvs_world` in one."""

from __future__ import annotations

from . import ipvs_world, proxy_world, trace_world
from .trace_world import TraceWorld


class InsightWorld(TraceWorld):
    """The test's side."""

    serve = f"{__name__}:serve"


class _Proxy(trace_world._Proxy, ipvs_world._IpvsProxy):
    pass


def serve(forbidden: str, mode: str) -> None:
    proxy_world.serve(forbidden, mode, _Proxy)
