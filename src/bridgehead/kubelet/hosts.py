"""A pod's host name, `/etc/hosts` and `/etc/resolv.conf`. Pure.

Sources: Kubernetes "Adding entries to Pod /etc/hosts", "DNS for Services and Pods", kubelet's `ensureHostsFile` and
`dns.Configurer`; a resolver's limits are resolv.conf(5)'s, as Kubernetes raises them.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bridgehead.objects.core import Pod

MAX_NAMESERVERS = 3
MAX_SEARCHES = 32
MAX_SEARCH_CHARACTERS = 2048
MAX_SEARCH_LENGTH = 253  # of one of them: glibc 2.28 aborts over longer ones
MAX_KERNEL_NAME = 64  # uname(2)


class Resolver(msgspec.Struct, frozen=True, kw_only=True):
    """What a resolv.conf says."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class PodResolver(NamedTuple):
    """A pod's resolver, and (reason, message) of each Event that says what was not as it was wished for."""

    resolver: Resolver
    warnings: tuple[tuple[str, str], ...]


# For pods of a node without name servers of its own (`--resolv-conf=`): lookups fail at once, nothing is searched.
_NOBODY = Resolver(nameservers=("127.0.0.1",), searches=(".",))


def host_name(pod: Pod) -> str:
    """The pod's host name: `spec.hostnameOverride` as it is, `spec.hostname`, or its name cut to what one may have."""
    return pod.spec.hostname_override or (pod.spec.hostname or pod.metadata.name)[:63].rstrip("-.")


def host_domain(pod: Pod, cluster_domain: str) -> str:
    """The domain of a pod with a subdomain, else "". A name that overrides all others is in none."""
    if not pod.spec.subdomain or pod.spec.hostname_override:
        return ""
    return f"{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}"


def kernel_host_name(pod: Pod, cluster_domain: str) -> str:
    """What `hostname` prints in the pod: with setHostnameAsFQDN the whole name. Raises ValueError for a longer one
    than the kernel holds."""
    name, domain = host_name(pod), host_domain(pod, cluster_domain)
    if not (domain and pod.spec.set_hostname_as_fqdn):
        return name
    fqdn = f"{name}.{domain}"
    if len(fqdn) > MAX_KERNEL_NAME:
        raise ValueError(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long "
            f"({MAX_KERNEL_NAME} characters is the max, {len(fqdn)} characters requested)"
        )
    return fqdn


def hosts_file(pod: Pod, pod_ips: tuple[str, ...], cluster_domain: str, node_hosts: str = "") -> str:
    """The content of `/etc/hosts`. `node_hosts` is the node's own, which a host-network pod sees."""
    if pod.spec.host_network:
        lines = ["# Kubernetes-managed hosts file (host network).", node_hosts.rstrip("\n")]
    else:
        lines = [
            "# Kubernetes-managed hosts file.",
            "127.0.0.1\tlocalhost",
            "::1\tlocalhost ip6-localhost ip6-loopback",
            "fe00::0\tip6-localnet",
            "fe00::0\tip6-mcastprefix",
            "fe00::1\tip6-allnodes",
            "fe00::2\tip6-allrouters",
        ]
        name, domain = host_name(pod), host_domain(pod, cluster_domain)
        names = f"{name}.{domain}\t{name}" if domain else name
        lines += [f"{ip}\t{names}" for ip in pod_ips]
    if pod.spec.host_aliases:
        lines += ["", "# Entries added by HostAliases."]
        lines += ["\t".join((alias.ip, *alias.hostnames)) for alias in pod.spec.host_aliases]
    return "\n".join(lines) + "\n"


def parse_resolver(text: str) -> Resolver:
    """Read a node's resolv.conf. The last `search` line counts; `domain` says nothing to a kubelet."""
    nameservers: list[str] = []
    searches: tuple[str, ...] = ()
    options: list[str] = []
    for line in text.splitlines():
        words = line.split("#", 1)[0].split(";", 1)[0].split()
        if len(words) < 2:
            continue
        if words[0] == "nameserver":
            nameservers.append(words[1])
        elif words[0] == "search":
            searches = tuple(word.rstrip(".") for word in words[1:] if word != ".")
        elif words[0] == "options":
            options += words[1:]
    return Resolver(nameservers=tuple(nameservers), searches=searches, options=tuple(options))


def pod_resolver(pod: Pod, node: Resolver, cluster_dns: tuple[str, ...], cluster_domain: str) -> PodResolver:
    """What the pod's dnsPolicy and dnsConfig make of the node's resolver, within a resolver's limits."""
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
        base = node if node.nameservers else _NOBODY
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


def resolver_file(resolver: Resolver) -> str:
    lines = []
    if resolver.searches:
        lines.append("search " + " ".join(resolver.searches))
    lines += [f"nameserver {address}" for address in resolver.nameservers]
    if resolver.options:
        lines.append("options " + " ".join(resolver.options))
    return "\n".join(lines) + "\n" if lines else ""


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _merge_options(base: tuple[str, ...], extra: tuple[str, ...]) -> tuple[str, ...]:
    """Options by name; those of dnsConfig replace the others."""
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
