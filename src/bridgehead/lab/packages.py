"""Debian packages of the commands that users run in a lab, for messages about a missing one.

Pure: no I/O, no clock, no randomness. scripts/system-packages has the same names for the commands that it installs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_PACKAGES: Final = {
    "arping": "iputils-arping",
    "bridge": "iproute2",
    "busybox": "busybox",
    "conntrack": "conntrack",
    "curl": "curl",
    "dig": "bind9-dnsutils",
    "dnsperf": "dnsperf",
    "etcd": "etcd-server",
    "etcdctl": "etcd-client",
    "getcap": "libcap2-bin",
    "host": "bind9-host",
    "ip": "iproute2",
    "ip6tables": "iptables",
    "ip6tables-save": "iptables",
    "ipset": "ipset",
    "iptables": "iptables",
    "iptables-restore": "iptables",
    "iptables-save": "iptables",
    "ipvsadm": "ipvsadm",
    "ifconfig": "net-tools",
    "iperf3": "iperf3",
    "jq": "jq",
    "kubectl": "kubernetes-client",
    "nc": "netcat-openbsd",
    "netstat": "net-tools",
    "nft": "nftables",
    "nping": "nmap",
    "nmap": "nmap",
    "nslookup": "bind9-dnsutils",
    "nsenter": "util-linux",
    "ping": "iputils-ping",
    "ps": "procps",
    "redis-cli": "redis-tools",
    "slirp4netns": "slirp4netns",
    "ss": "iproute2",
    "strace": "strace",
    "tc": "iproute2",
    "tcpdump": "tcpdump",
    "telnet": "telnet",
    "traceroute": "traceroute",
    "wget": "wget",
}

# Commands of the machine that pods run whose images are stand-ins, such as busybox and admin-box.
POD_TOOLS: Final = ("busybox", "curl", "dig", "host", "ip")


def describe_missing_tools(missing: Sequence[str]) -> str:
    """Return what pods lack without these of the `POD_TOOLS`, "" if none is missing."""
    if not missing:
        return ""
    packages = " ".join(dict.fromkeys(_PACKAGES[command] for command in missing))
    return (
        f"This machine lacks {', '.join(missing)}, and so do pods with stand-ins for images such as busybox and"
        f" admin-box (Debian: apt-get install {packages})."
    )


def how_to_install(command: str) -> str:
    """Return the advice for a missing command, or "" for a command that is unknown here."""
    package = _PACKAGES.get(command)
    return f"install it (Debian: apt-get install {package})" if package else ""
