"""The resolution of a name as a program does it: the names that the resolver asks for, and the answers that it gets.

The expected answers are those of the Kubernetes DNS specification for the objects of the API. Real answers, from a DNS
server, have the same form (`dns_queries.py`), so that both can be compared.

Pure: no I/O, no clock, no randomness. Source: resolv.conf(5).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridgehead.dns.messages.domain_names import is_name, is_within
from bridgehead.dns.zone.specification import address_of_pod_label, extra_records, service_records
from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.insight.facts.system_object_names import DNS_SERVICE
from bridgehead.kubelet.containers.dns_policy import pod_resolver
from bridgehead.kubelet.node.resolv_conf import Resolver
from bridgehead.objects.core import Pod
from bridgehead.objects.meta import ObjectKey

NOERROR, NXDOMAIN = "NOERROR", "NXDOMAIN"
UPSTREAM = "UPSTREAM"  # in place of a response code: the name is not the cluster's, so nothing is expected
FAMILIES = {"A": 4, "AAAA": 6}

_DEFAULT_NDOTS = 1
_MOST_NDOTS = 15  # resolv.conf(5)
_MOST_ALIASES = 8


class DnsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to the questions for the A and the AAAA records of a name.

    `rcode`: the response code, UPSTREAM, or a text in lower case if there was no answer. `aliases`: targets of CNAME
    records. `record`: the object and the field from which the records come; "" if unknown. `server`: the one that
    answered; "" if the answer is expected. `milliseconds`: until the answer came.
    """

    name: str
    rcode: str
    addresses: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    record: str = ""
    server: str = ""
    milliseconds: float | None = None

    @property
    def is_final(self) -> bool:
        """Whether the resolver asks for no further name."""
        return bool(self.addresses) or self.rcode == UPSTREAM


def expected_resolver(pod: Pod | None, state: ClusterState, node: Resolver) -> Resolver:
    """Return the resolver of a pod, or of a node (None), as its kubelet writes it."""
    service = state.services.get(DNS_SERVICE)
    if pod is None:
        return node
    addresses = service.spec.cluster_ips or (service.spec.cluster_ip,) if service is not None else ()
    servers = tuple(address for address in addresses if address and address != "None")[:1]
    return pod_resolver(pod, node, servers, state.domain).resolver


def candidate_names(name: str, resolver: Resolver) -> tuple[str, ...]:
    """Return the absolute names that a resolver asks for, in order, until one has addresses.

    A name with fewer dots than `ndots` is first looked for below each domain of the search list.
    """
    if name.endswith("."):
        return (name.rstrip("."),)
    below = [f"{name}.{domain}".rstrip(".") for domain in resolver.searches]
    names = [*below, name] if name.count(".") < ndots_of(resolver) else [name, *below]
    return tuple(dict.fromkeys(each for each in names if is_name(each)))


def ndots_of(resolver: Resolver) -> int:
    found = _DEFAULT_NDOTS
    for option in resolver.options:
        key, _, value = option.partition(":")
        if key == "ndots" and value.isascii() and value.isdigit():
            found = min(int(value[:3]), _MOST_NDOTS)
    return found


def expected_resolution(name: str, resolver: Resolver, state: ClusterState) -> tuple[DnsAnswer, ...]:
    """Return the expected answers in the order of the questions; the last one ends the search."""
    found = []
    for candidate in candidate_names(name, resolver):
        found.append(expected_answer(candidate, state))
        if found[-1].is_final:
            break
    return tuple(found)


def expected_answer(name: str, state: ClusterState) -> DnsAnswer:
    """Return the answer of the cluster's DNS to an absolute name."""
    aliases: list[str] = []
    wanted = name
    records: list[str] = []
    while True:
        if not is_within(wanted, state.domain):
            return DnsAnswer(name=name, rcode=UPSTREAM, aliases=tuple(aliases), record="; ".join(records))
        found = _lookup(wanted, state)
        if found is None:
            return DnsAnswer(name=name, rcode=NXDOMAIN, aliases=tuple(aliases), record="; ".join(records))
        sets, record = found
        records.append(record)
        target = next(iter(sets.get("CNAME", ())), None)
        if target is None or len(aliases) == _MOST_ALIASES:
            break
        wanted = str(target)
        aliases.append(wanted)
    addresses = tuple(str(one) for kind in FAMILIES for one in sets.get(kind, ()))
    return DnsAnswer(name=name, rcode=NOERROR, addresses=addresses, aliases=tuple(aliases), record="; ".join(records))


def _lookup(name: str, state: ClusterState) -> tuple[dict[str, tuple[object, ...]], str] | None:
    """Return the record sets of a name of the cluster's domain and their origin; None: there is no such name."""
    labels = name.removesuffix(state.domain).removesuffix(".").split(".")
    if labels == [""] or labels in (["svc"], ["pod"]):
        return {}, "the zone itself"
    kind = labels[-1]
    if kind == "pod" and len(labels) == 3:
        return _pod(labels[0], labels[1], state)
    if kind == "pod" and len(labels) == 2:
        return ({}, f"Namespace {labels[0]}") if labels[0] in state.namespaces else None
    if kind != "svc":
        return None
    if len(labels) == 2:
        return ({}, f"Namespace {labels[0]}") if labels[0] in state.namespaces else None
    key = ObjectKey(labels[-2], labels[-3])
    service = state.services.get(key)
    if service is None:
        return None
    slices = state.slices_of(key)
    names = {**extra_records(service, slices, state.domain), **service_records(service, slices, state.domain).names}
    sets = names.get(name)
    if sets is None:
        return ({}, f"Service {key}") if any(is_within(other, name) for other in names) else None
    if service.spec.type == "ExternalName":
        return dict(sets), f"externalName of Service {key}"
    field = "EndpointSlices" if service.spec.cluster_ip == "None" or len(labels) > 3 else "clusterIPs"
    return dict(sets), f"{field} of Service {key}"


def _pod(label: str, namespace: str, state: ClusterState) -> tuple[dict[str, tuple[object, ...]], str] | None:
    address = address_of_pod_label(label)
    if address is None or namespace not in state.namespaces:
        return None
    return {"AAAA" if ":" in address else "A": (address,)}, f"the address in the name, of Namespace {namespace}"


def difference(expected: Iterable[DnsAnswer], seen: Iterable[DnsAnswer]) -> str:
    """Return one sentence on how the last answers differ; "" if they agree, or if nothing was expected."""
    wanted, real = list(expected), list(seen)
    if not real or not wanted:
        return ""
    last, got = wanted[-1], real[-1]
    if last.rcode == UPSTREAM:
        return ""
    is_same_name = got.name == last.name or got.milliseconds is None  # a program prints no names that it asked for
    if is_same_name and set(got.addresses) == set(last.addresses) and got.rcode == last.rcode:
        return ""
    return f"the DNS should answer {_text(last)}, but answered {_text(got)}"


def _text(answer: DnsAnswer) -> str:
    return f"{answer.name} with {', '.join(answer.addresses) or answer.rcode}"
