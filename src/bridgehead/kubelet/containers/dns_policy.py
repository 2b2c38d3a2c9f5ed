"""A pod's `/etc/resolv.conf`, by its dnsPolicy and dnsConfig.

Pure: no I/O, no clock, no randomness. Sources: Kubernetes "DNS for Services and Pods" and kubelet's `dns.Configurer`;
the limits are resolv.conf(5)'s, as Kubernetes raises them.
"""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.kubelet.node.resolv_conf import Resolver
from bridgehead.objects.core import Pod

MAX_NAMESERVERS = 3
MAX_SEARCHES = 32
MAX_SEARCH_CHARACTERS = 2048
MAX_SEARCH_LENGTH = 253  # of one search domain: glibc 2.28 aborts on longer ones


class PodResolver(NamedTuple):
    """A pod's resolver, and (reason, message) of an Event for each wish that was not granted."""

    resolver: Resolver
    warnings: tuple[tuple[str, str], ...]


# Resolver of pods on a node without name servers (`--resolv-conf=`): lookups fail at once, and no domain is searched.
_NO_SERVER = Resolver(nameservers=("127.0.0.1",), searches=(".",))


def pod_resolver(pod: Pod, node: Resolver, cluster_dns: tuple[str, ...], cluster_domain: str) -> PodResolver:
    """Return the pod's resolver, made from the node's by dnsPolicy and dnsConfig and cut to the limits."""
    warnings = []
    policy = pod.spec.dns_policy
    if policy == "ClusterFirst" and pod.spec.host_network:
        policy = "Default"
    if policy in ("ClusterFirst", "ClusterFirstWithHostNet") and cluster_dns:
        own = (f"{pod.metadata.namespace}.svc.{cluster_domain}", f"svc.{cluster_domain}", cluster_domain)
        base = Resolver(nameservers=cluster_dns, searches=_unique(own + node.searches), options=("ndots:5",))
    elif policy == "None":
        base = Resolver()
    else:
        if policy != "Default":
            warnings.append(("MissingClusterDNS", _missing_cluster_dns(pod)))
        base = node if node.nameservers else _NO_SERVER
    if (config := pod.spec.dns_config) is not None:
        extra = tuple(o.name if o.value is None else f"{o.name}:{o.value}" for o in config.options)
        base = Resolver(
            nameservers=_unique(base.nameservers + config.nameservers),
            searches=_unique(base.searches + config.searches),
            options=_merge_options(base.options, extra),
        )
    searches = _limit_searches(base.searches)
    if searches != base.searches:
        what = "Search Line limits were exceeded, some search paths have been omitted, the applied search line is"
        warnings.append(("DNSConfigForming", f"{what}: {' '.join(searches)}"))
    nameservers = base.nameservers[:MAX_NAMESERVERS]
    if nameservers != base.nameservers:
        what = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is"
        warnings.append(("DNSConfigForming", f"{what}: {' '.join(nameservers)}"))
    fitting = Resolver(nameservers=nameservers, searches=searches, options=base.options)
    return PodResolver(fitting, tuple(warnings))


def _missing_cluster_dns(pod: Pod) -> str:
    meta = pod.metadata
    return (
        f'pod: "{meta.name}_{meta.namespace}({meta.uid})". kubelet does not have ClusterDNS IP configured and cannot '
        'create Pod using "ClusterFirst" policy. Falling back to "Default" policy.'
    )


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _merge_options(base: tuple[str, ...], extra: tuple[str, ...]) -> tuple[str, ...]:
    """Merge options by name; options of dnsConfig replace options of the base."""
    by_name = {option.partition(":")[0]: option for option in base}
    by_name |= {option.partition(":")[0]: option for option in extra}
    return tuple(by_name.values())


def _limit_searches(searches: tuple[str, ...]) -> tuple[str, ...]:
    kept: list[str] = []
    length = 0
    for search in searches[:MAX_SEARCHES]:
        if len(search) > MAX_SEARCH_LENGTH:
            continue
        length += len(search) + 1
        if length > MAX_SEARCH_CHARACTERS + 1:
            break
        kept.append(search)
    return tuple(kept)
