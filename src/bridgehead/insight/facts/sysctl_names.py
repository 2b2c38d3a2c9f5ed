"""The sysctls that are read: those that decide whether and how a node forwards packets.

Pure: no I/O, no clock, no randomness. Source: the kernel's Documentation/networking/ip-sysctl.rst and
nf_conntrack-sysctl.rst.
"""

from __future__ import annotations

from typing import Final

SYSCTLS: Final = (
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/forwarding",
    "net/ipv6/conf/default/forwarding",
    "net/ipv6/conf/all/disable_ipv6",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/ip_nonlocal_bind",
    "net/ipv4/ip_unprivileged_port_start",
    "net/ipv4/fwmark_reflect",
    "net/ipv4/tcp_mtu_probing",
    "net/ipv4/vs/conntrack",
    "net/ipv4/vs/conn_reuse_mode",
    "net/ipv4/vs/expire_nodest_conn",
    "net/ipv4/vs/expire_quiescent_template",
    "net/bridge/bridge-nf-call-iptables",
    "net/bridge/bridge-nf-call-ip6tables",
    "net/core/somaxconn",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_count",
    "net/netfilter/nf_conntrack_buckets",
    "net/netfilter/nf_conntrack_acct",
    "net/netfilter/nf_conntrack_timestamp",
    "net/netfilter/nf_conntrack_tcp_be_liberal",
    "net/netfilter/nf_conntrack_tcp_loose",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait",
    "net/netfilter/nf_conntrack_udp_timeout",
    "net/netfilter/nf_conntrack_udp_timeout_stream",
    "net/nf_conntrack_max",
)
# Of each interface, and of `all` and `default`: net/ipv4/conf/eth0/rp_filter.
PER_INTERFACE: Final = ("rp_filter", "route_localnet", "arp_ignore", "arp_announce", "forwarding", "accept_local")
INTERFACES: Final = "net/ipv4/conf"
