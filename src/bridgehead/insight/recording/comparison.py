"""Comparison of a recording with its replay: what proxies are to program, and what the kernels have.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from bridgehead.insight.facts.network_state import RULES, NetworkState
from bridgehead.insight.findings import printable
from bridgehead.insight.rulesets.entries import KernelFrontend, RulesMode
from bridgehead.insight.rulesets.reading import read_rules
from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.core import Node
from bridgehead.objects.endpoint_slices import Endpoint, EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import AddressPort, Family
from bridgehead.proxy.frontends import Frontend, FrontendKey, NodeFacts
from bridgehead.proxy.service_frontends import compile_service

from .format import NetworkEntry, Recording
from .replay_plan import State

_MOST_NAMED = 5  # backends in a text
_NOT_COMPARED = (RulesMode.USERSPACE, RulesMode.IPVS)
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


def with_recorded_addresses(state: State, addresses: Mapping[str, str]) -> State:
    """Return the state with the recorded addresses of endpoints. `addresses`: address in the lab -> recorded one."""
    return State(
        state.services,
        {
            key: replace(
                slice_, endpoints=tuple(_with_recorded_addresses(each, addresses) for each in slice_.endpoints)
            )
            for key, slice_ in state.slices.items()
        },
    )


def _with_recorded_addresses(endpoint: Endpoint, addresses: Mapping[str, str]) -> Endpoint:
    return replace(endpoint, addresses=tuple(addresses.get(each, each) for each in endpoint.addresses))


class KernelComparison(NamedTuple):
    """The rules of a node in the recording and in the replay.

    `differences`: a line for each destination that they do not serve alike. `destinations`: the number of those in
    both. `why_not`: why they were not compared; "" if they were.
    """

    differences: tuple[str, ...] = ()
    destinations: int = 0
    why_not: str = ""


def last_states(recording: Recording) -> Mapping[str, NetworkState]:
    """Return the last recorded rules by node."""
    return {
        entry.node: entry.state
        for entry in recording.entries
        if isinstance(entry, NetworkEntry) and not RULES & entry.state.unseen.keys()
    }


def recorded_mode(recording: Recording) -> RulesMode | None:
    """Return the mode of the recorded proxies; None if it is unknown, or not the same on all nodes."""
    modes = {read_rules(state).mode for state in last_states(recording).values()}
    mode = modes.pop() if len(modes) == 1 else None
    return RulesMode.NFTABLES if mode is RulesMode.KUBE_PROXY_NFTABLES else mode


def compare_kernels(
    recorded: NetworkState, replayed: NetworkState, ignored: Collection[str], addresses: Mapping[str, str]
) -> KernelComparison:
    """Compare the rules by destination and backends, whatever the modes.

    `ignored`: Services, `namespace/name`. `addresses`: address of a backend in the lab -> recorded one.
    """
    (mode, was), (now_mode, now) = _served(recorded, ignored, {}), _served(replayed, ignored, addresses)
    for which, each in (("recording", mode), ("replay", now_mode)):
        if each is None:
            return KernelComparison(why_not=f"the {which} has no rules of a service proxy")
        if each in _NOT_COMPARED:
            return KernelComparison(why_not=f"rules of mode {each} do not have the Services' names and backends")
    lines = tuple(
        f"{key} ({printable((was.get(key) or now[key]).service)}): the recorded kernel has {_served_as(was.get(key))},"
        f" the replay has {_served_as(now.get(key))}"
        for key in sorted(was.keys() | now.keys())
        if _served_as(was.get(key)) != _served_as(now.get(key))
    )
    return KernelComparison(lines, len(was.keys() & now.keys()))


def _served(
    state: NetworkState, ignored: Collection[str], addresses: Mapping[str, str]
) -> tuple[RulesMode | None, Mapping[FrontendKey, KernelFrontend]]:
    """Return the mode in use, and the destinations of all Services but the ignored ones."""
    rules = read_rules(state)
    if rules.mode is None:
        return None, {}
    frontends = rules.frontends[rules.mode]

    def recorded(backends: Iterable[AddressPort]) -> tuple[AddressPort, ...]:
        return tuple((addresses.get(address, address), port) for address, port in backends)

    return rules.mode, {
        key: replace(
            each,
            backends=recorded(each.backends),
            cluster_backends=None if each.cluster_backends is None else recorded(each.cluster_backends),
        )
        for key, each in frontends.items()
        if each.service.rpartition(":")[0] not in ignored
    }


def _served_as(frontend: KernelFrontend | None) -> str:
    """Describe the fate of a connection. Some modes have no rule of its own for a destination without backends."""
    if frontend is None or not (frontend.backends or frontend.cluster_backends):
        return "no backend"
    text = _backends_text(frontend.backends)
    if frontend.cluster_backends is not None and set(frontend.cluster_backends) != set(frontend.backends):
        text += f", and for clients in the cluster {_backends_text(frontend.cluster_backends)}"
    return text


def _backends_text(backends: Collection[AddressPort]) -> str:
    names = [join_host_port(address, port) for address, port in sorted(set(backends))]
    return ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} others" if names[_MOST_NAMED:] else "")
