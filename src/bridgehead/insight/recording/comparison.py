"""Comparison of a recording with its replay: what proxies are to program, Frontend by Frontend.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridgehead.objects.core import Node
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.frontends import Frontend, FrontendKey, NodeFacts
from bridgehead.proxy.service_frontends import compile_service

from .rebuilding import State

_ZONE = "topology.kubernetes.io/zone"

Frontends = Mapping[FrontendKey, Frontend]


def frontends_of(state: State, node: Node) -> Frontends:
    """Return what the proxy of `node` is to program for these objects."""
    addresses = tuple(sorted(each.address for each in node.status.addresses if each.type == "InternalIP"))
    families: tuple[Family, ...] = (4, 6)
    facts = NodeFacts(
        name=node.metadata.name,
        addresses=addresses,
        zone=node.metadata.labels.get(_ZONE, ""),
        families=families,
    )
    slices: dict[ObjectKey, list[EndpointSlice]] = {}
    for slice_ in state.slices.values():
        if (key := slice_.service_key) is not None:
            slices.setdefault(key, []).append(slice_)
    return {
        frontend.key: frontend
        for key, service in sorted(state.services.items())
        for frontend in compile_service(service, slices.get(key, ()), facts).frontends
    }


def differences(recorded: Frontends, replayed: Frontends) -> Iterable[str]:
    """Yield a line for each Frontend that is not the same in both."""
    for key in sorted(recorded.keys() | replayed.keys()):
        was, now = recorded.get(key), replayed.get(key)
        if was is None or now is None:
            known = was or now
            yield f"{key} ({known.owner if known else ''}) is only in the {'replay' if was is None else 'recording'}"
        elif was != now:
            yield f"{key} ({was.owner}): {_difference(was, now)}"


def _difference(was: Frontend, now: Frontend) -> str:
    lacking, added = set(was.backends) - set(now.backends), set(now.backends) - set(was.backends)
    if lacking or added:
        texts = [f"lacks {b.address}:{b.port}" for b in sorted(lacking)]
        texts += [f"has {b.address}:{b.port} in addition" for b in sorted(added)]
        return "the replay " + ", ".join(texts[:5]) + (f" and {len(texts) - 5} others" if len(texts) > 5 else "")
    fields = [f for f in Frontend.__struct_fields__ if getattr(was, f) != getattr(now, f)]
    return f"the replay has another {', '.join(fields)}"
