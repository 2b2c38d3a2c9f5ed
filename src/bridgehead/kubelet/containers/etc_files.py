"""A pod's `/etc/hosts`, `/etc/hostname` and `/etc/resolv.conf` on disk, shared by its containers.

Called when a container is about to start. Source: kubelet's `ensureHostsFile`.
"""

from __future__ import annotations

import os
from pathlib import Path

from bridgehead.kubelet.node.resolv_conf import resolver_file
from bridgehead.objects.core import Pod

from .context import NodeContext
from .dns_policy import pod_resolver
from .host_names import hosts_file, kernel_host_name


def container_host_name(node: NodeContext, pod: Pod) -> str:
    """Return the host name that the pod's containers see: the node's in a host-network pod."""
    settings = node.settings
    return settings.name if pod.spec.host_network else kernel_host_name(pod, settings.cluster_domain)


def write_etc_files(node: NodeContext, pod: Pod, pod_ips: tuple[str, ...]) -> dict[str, Path]:
    """Write the pod's /etc files. Returns path in the container -> path on the node."""
    settings = node.settings
    directory = node.volumes.pod_directory(pod.metadata.uid)
    directory.mkdir(parents=True, exist_ok=True)
    node_hosts = _read_text("/etc/hosts") if pod.spec.host_network else ""
    resolver, warnings = pod_resolver(pod, settings.resolver, settings.cluster_dns, settings.cluster_domain)
    for reason, message in warnings:
        node.record(pod, "Warning", reason, message)
    contents = {
        "/etc/hosts": ("etc-hosts", hosts_file(pod, pod_ips, settings.cluster_domain, node_hosts)),
        "/etc/resolv.conf": ("resolv.conf", resolver_file(resolver)),
    }
    if not pod.spec.host_network:
        contents["/etc/hostname"] = ("hostname", container_host_name(node, pod) + "\n")
    files = {}
    for target, (name, text) in contents.items():
        path = directory / name
        # An existing file is never replaced by another: running containers have it bind-mounted.
        if not _has_content(path, text.encode()):
            path.write_text(text)
        files[target] = path
    return files


def _has_content(path: Path, content: bytes) -> bool:
    """Whether the file has this content. A file of another size is not read: a container may have written gigabytes."""
    if not path.exists() or path.stat().st_size != len(content):
        return False
    return path.read_bytes() == content


def _read_text(path: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
