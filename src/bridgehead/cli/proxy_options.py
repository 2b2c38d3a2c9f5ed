"""What the options of `bridgehead proxy` mean, by the names of the parameters of its command: which field of a
KubeProxyConfiguration each is, and what is said of kube-proxy's that ask for what is not there. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bridgehead.proxy.config import DEFAULTS, with_field
from bridgehead.proxy.errors import ConfigInvalid

# Which field of the configuration an option is.
FIELDS = {
    "kubeconfig": "clientConnection.kubeconfig",
    "kube_api_qps": "clientConnection.qps",
    "kube_api_burst": "clientConnection.burst",
    "node_name": "hostnameOverride",
    "proxy_mode": "mode",
    "bind_address": "bindAddress",
    "bind_address_hard_fail": "bindAddressHardFail",
    "healthz_bind_address": "healthzBindAddress",
    "metrics_bind_address": "metricsBindAddress",
    "cluster_cidr": "clusterCIDR",
    "detect_local_mode": "detectLocalMode",
    "pod_bridge_interface": "detectLocal.bridgeInterface",
    "pod_interface_name_prefix": "detectLocal.interfaceNamePrefix",
    "iptables_localhost_nodeports": "iptables.localhostNodePorts",
    "ipvs_scheduler": "ipvs.scheduler",
    "ipvs_strict_arp": "ipvs.strictARP",
    "ipvs_tcp_timeout": "ipvs.tcpTimeout",
    "ipvs_tcpfin_timeout": "ipvs.tcpFinTimeout",
    "ipvs_udp_timeout": "ipvs.udpTimeout",
    "conntrack_max_per_core": "conntrack.maxPerCore",
    "conntrack_min": "conntrack.min",
    "conntrack_tcp_timeout_established": "conntrack.tcpEstablishedTimeout",
    "conntrack_tcp_timeout_close_wait": "conntrack.tcpCloseWaitTimeout",
    "conntrack_tcp_be_liberal": "conntrack.tcpBeLiberal",
    "conntrack_udp_timeout": "conntrack.udpTimeout",
    "conntrack_udp_timeout_stream": "conntrack.udpStreamTimeout",
    "oom_score_adj": "oomScoreAdj",
    "profiling": "enableProfiling",
    "logging_format": "logging.format",
}
# These lists are given with commas.
LISTS = {"nodeport_addresses": "nodePortAddresses", "ipvs_exclude_cidrs": "ipvs.excludeCIDRs"}
# These are said of iptables, and meant of the mode that is used.
OF_ANY_MODE = {
    "masquerade_all": "masqueradeAll",
    "iptables_masquerade_bit": "masqueradeBit",
    "iptables_sync_period": "syncPeriod",
    "iptables_min_sync_period": "minSyncPeriod",
    "ipvs_sync_period": "syncPeriod",
    "ipvs_min_sync_period": "minSyncPeriod",
}
# The older way to say where a server listens: the port of an address that has one already.
PORTS = {"healthz_port": "healthz_bind_address", "metrics_port": "metrics_bind_address"}
_TO_STDERR = "logs go to standard error; redirect that"
# What to say of options that ask for what is not there, by the value that asks for it; None is any.
REFUSED: dict[str, tuple[object, str]] = {
    "profiling": (True, "there is no profiler; leave it out"),
    "logtostderr": (False, _TO_STDERR),
    "log_dir": (None, _TO_STDERR),
    "log_file": (None, _TO_STDERR),
    "log_text_split_stream": (True, _TO_STDERR),
    "log_json_split_stream": (True, _TO_STDERR),
}
# What is said at the start of options that change less than one could think.
UNUSED = {
    "feature_gates": "what is behind kube-proxy's gates is either there or not (see the README of the proxy)",
    "vmodule": "-v 1 tells everything of every module",
}


def with_options(document: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with the options that were given in the place of its fields."""
    mode = given["proxy_mode"] or document.get("mode") or "nftables"
    fields = {**FIELDS, **LISTS, **{option: f"{mode}.{field}" for option, field in OF_ANY_MODE.items()}}
    for option, field in fields.items():
        value = given[option]
        if option in LISTS:
            value = [part.strip() for part in value.split(",") if part.strip()]
        if value not in ("", None, []) and not (option.startswith("ipvs_") and mode != "ipvs"):
            document = with_field(document, field, value)
    for option, address in PORTS.items():
        if given[option] is not None and not given[address]:
            field = FIELDS[address]
            host = str(document.get(field) or DEFAULTS[field]).rpartition(":")[0]
            document = with_field(document, field, f"{host}:{given[option]}")
    return document


def refuse(given: Mapping[str, Any]) -> None:
    """Raise ConfigInvalid for an option that asks for what is not there."""
    for option, (wanted, what_to_do) in REFUSED.items():
        value = given[option]
        if value == wanted if wanted is not None else value not in ("", None):
            text = f"={str(value).lower()}" if isinstance(value, bool) else ""
            raise ConfigInvalid(f"{_spelled(option)}{text}: {what_to_do}")


def unused(given: Mapping[str, Any]) -> Iterator[str]:
    """What to warn of."""
    for option, why in UNUSED.items():
        if given[option]:
            yield f"{_spelled(option)} is not used: {why}"


def _spelled(option: str) -> str:
    return f"--{option.replace('_', '-')}"
