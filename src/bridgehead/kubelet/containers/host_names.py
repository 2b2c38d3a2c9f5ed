"""A pod's host name and its `/etc/hosts`.

Pure: no I/O, no clock, no randomness. Sources: Kubernetes "Adding entries to Pod /etc/hosts", "DNS for Services and
Pods" and kubelet's `ensureHostsFile`.
"""

from __future__ import annotations

from bridgehead.objects.core import Pod

MAX_KERNEL_NAME = 64  # uname(2)


def host_name(pod: Pod) -> str:
    """Return the pod's host name: `spec.hostnameOverride` unchanged, or `spec.hostname` or its name, cut to 63
    characters."""
    return pod.spec.hostname_override or (pod.spec.hostname or pod.metadata.name)[:63].rstrip("-.")


def host_domain(pod: Pod, cluster_domain: str) -> str:
    """Return the domain of a pod with a subdomain, else "". A pod with `spec.hostnameOverride` has no domain."""
    if not pod.spec.subdomain or pod.spec.hostname_override:
        return ""
    return f"{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}"


def kernel_host_name(pod: Pod, cluster_domain: str) -> str:
    """Return what `hostname` prints in the pod; with setHostnameAsFQDN that is the FQDN. Raises ValueError for a name
    longer than the kernel allows."""
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
    """Render `/etc/hosts`. `node_hosts` is the content of the node's own, which a host-network pod sees."""
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
