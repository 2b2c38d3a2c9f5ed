"""The path of a connection to a Service through one node, as a page draws it: name, address, rules, backends.

The backends are those that the node's proxy should have programmed; the rules are those that its kernel has now. Where
they differ, the step of the rules is broken.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.insight.expectations import Expectations
from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.insight.findings import printable
from bridgehead.insight.rulesets.entries import NodeRules
from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.core import Service
from bridgehead.proxy.frontends import Backend, Frontend, Publication, Verdict

MOST_LINES = 3  # of rules in one step
MOST_BACKENDS = 100
_LONGEST_LINE = 300


class PathStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step. `state`: ok, broken or unknown.

    `title`: the key of a text of the page; of `path.client`, `text` is the node.
    """

    title: str
    text: str
    state: str = "ok"
    lines: tuple[str, ...] = ()


class PathBackend(msgspec.Struct, frozen=True, kw_only=True):
    """A backend that a new connection may get. `chance`: from 0 to 1."""

    address: str
    chance: float
    pod: str = ""
    node: str = ""


class ServicePath(msgspec.Struct, frozen=True, kw_only=True):
    """`ports`: all addresses of the Service, one of which is this path's. `outcome`: the fate without backends."""

    ports: tuple[str, ...]
    steps: tuple[PathStep, ...]
    backends: tuple[PathBackend, ...]
    total: int
    outcome: str = ""


def frontends_of(expected: Expectations, service: Service) -> tuple[Frontend, ...]:
    """Return the Frontends of a Service in the order of the page: its cluster IPs first."""
    order = list(Publication)
    found = expected.frontends_of(service.key)
    return tuple(sorted(found, key=lambda one: (order.index(one.published_as), one.key.family, one.key.port)))


def service_path(
    service: Service,
    expected: Expectations,
    state: ClusterState,
    rules: NodeRules | None,
    unseen: str,
    index: int,
) -> ServicePath:
    """Return the path to the Frontend at `index` for a client in the cluster, at the node of `expected`.

    `rules`: of the node's kernel; None if they could not be read, for the reason `unseen`.
    """
    meta = service.metadata
    frontends = frontends_of(expected, service)
    name = f"{meta.name}.{meta.namespace}.svc.{state.domain}"
    first = [PathStep(title="path.client", text=printable(expected.node, 253))]
    if not frontends:
        if service.spec.cluster_ip == "None":
            return _headless(service, state, first, name)
        step = PathStep(title="path.name", text=printable(name))
        return ServicePath(ports=(), steps=(*first, step), backends=(), total=0)
    frontend = frontends[min(max(index, 0), len(frontends) - 1)]
    backends = frontend.backends if frontend.cluster_backends is None else frontend.cluster_backends
    if frontend.published_as is Publication.CLUSTER_IP:
        first.append(PathStep(title="path.name", text=printable(name)))
    first.append(PathStep(title="path.frontend", text=str(frontend.key), lines=_notes(frontend)))
    first.append(_rules_step(frontend, backends, expected, rules, unseen))
    outcome = ""
    if not backends:
        outcome = "rejected" if frontend.when_empty is Verdict.REJECT else "dropped"
    shown = [
        PathBackend(
            address=join_host_port(one.address, one.port),
            chance=1 / len(backends),
            pod=_pod_of(one, state),
            node=printable(one.node or "", 253),
        )
        for one in backends[:MOST_BACKENDS]
    ]
    return ServicePath(
        ports=tuple(str(one.key) for one in frontends),
        steps=tuple(first),
        backends=tuple(shown),
        total=len(backends),
        outcome=outcome,
    )


def _headless(service: Service, state: ClusterState, first: Sequence[PathStep], name: str) -> ServicePath:
    """Return the path to a Service without an address: clients get the addresses of its pods from the DNS."""
    addresses: dict[str, PathBackend] = {}
    for slice_ in state.slices_of(service.key):
        for endpoint in slice_.endpoints:
            if endpoint.conditions.is_ready or service.spec.publish_not_ready_addresses:
                address = endpoint.first_address or ""
                pod = endpoint.target_ref.name if endpoint.target_ref is not None else ""
                addresses[address] = PathBackend(
                    address=printable(address, 63),
                    chance=0.0,
                    pod=printable(pod, 253),
                    node=printable(endpoint.node_name or "", 253),
                )
    shown = [msgspec.structs.replace(one, chance=1 / len(addresses)) for one in addresses.values()][:MOST_BACKENDS]
    step = PathStep(title="path.name", text=printable(name), lines=("headless: the DNS answers with the pods",))
    return ServicePath(ports=(), steps=(*first, step), backends=tuple(shown), total=len(addresses))


def _notes(frontend: Frontend) -> tuple[str, ...]:
    notes = []
    if frontend.affinity_seconds is not None:
        notes.append(f"sessionAffinity: ClientIP, {frontend.affinity_seconds} s")
    if frontend.source_ranges is not None:
        notes.append(f"loadBalancerSourceRanges: {', '.join(frontend.source_ranges) or 'none of this family'}")
    if frontend.is_local:
        notes.append("traffic policy Local: backends on this node only")
    elif frontend.cluster_backends is not None:
        notes.append("externalTrafficPolicy: Local, for clients outside of the cluster")
    return tuple(printable(note, _LONGEST_LINE) for note in notes)


def _rules_step(
    frontend: Frontend,
    backends: Sequence[Backend],
    expected: Expectations,
    rules: NodeRules | None,
    unseen: str,
) -> PathStep:
    mode = printable(expected.mode, 63)
    if rules is None:
        return PathStep(title="path.rules", text=mode, state="unknown", lines=(printable(unseen, _LONGEST_LINE),))
    lines = tuple(printable(entry.text.strip(), _LONGEST_LINE) for entry in rules.of(frontend.key)[:MOST_LINES])
    text = f"{mode}, {expected.node}"
    for served in rules.frontends.values():
        found = served.get(frontend.key)
        if found is None:
            continue
        kernel = found.backends if found.cluster_backends is None else found.cluster_backends
        wanted = {(one.address, one.port) for one in backends}
        if expected.mode == "userspace" or set(map(tuple, kernel)) == wanted:
            return PathStep(title="path.rules", text=printable(text), lines=lines)
        difference = (
            f"backends in the kernel: {', '.join(join_host_port(*one) for one in kernel[:MOST_LINES]) or 'none'}"
        )
        return PathStep(
            title="path.rules",
            text=printable(text),
            state="broken",
            lines=(printable(difference, _LONGEST_LINE), *lines),
        )
    return PathStep(
        title="path.rules", text=printable(text), state="broken", lines=("the kernel has no rule for this address",)
    )


def _pod_of(backend: Backend, state: ClusterState) -> str:
    pod = state.pods_by_address.get(backend.address)
    return printable(pod.metadata.name, 253) if pod is not None else ""
