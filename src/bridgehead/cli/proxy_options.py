"""Mapping of the options of `bridgehead proxy` to fields of a KubeProxyConfiguration, and options that are rejected.

Keys are the names of the parameters of the command. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bridgehead.proxy.config import DEFAULTS, with_field
from bridgehead.proxy.errors import ConfigInvalid

# Option -> field of the configuration.
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
# Options whose value is a comma-separated list.
LISTS = {"nodeport_addresses": "nodePortAddresses", "ipvs_exclude_cidrs": "ipvs.excludeCIDRs"}
# Options that kube-proxy names after iptables, and that apply to the mode in use.
OF_ANY_MODE = {
    "masquerade_all": "masqueradeAll",
    "iptables_masquerade_bit": "masqueradeBit",
    "iptables_sync_period": "syncPeriod",
    "iptables_min_sync_period": "minSyncPeriod",
    "ipvs_sync_period": "syncPeriod",
    "ipvs_min_sync_period": "minSyncPeriod",
}
# Deprecated options that set only the port of an address.
PORTS = {"healthz_port": "healthz_bind_address", "metrics_port": "metrics_bind_address"}
_TO_STDERR = "logs go to standard error; redirect standard error instead"
# Option -> (the value that is rejected, None for any; advice for the error).
REFUSED: dict[str, tuple[object, str]] = {
    "profiling": (True, "there is no profiler; remove the option"),
    "logtostderr": (False, _TO_STDERR),
    "log_dir": (None, _TO_STDERR),
    "log_file": (None, _TO_STDERR),
    "log_text_split_stream": (True, _TO_STDERR),
    "log_json_split_stream": (True, _TO_STDERR),
}
# Option without effect -> the reason, for a warning at the start.
UNUSED = {
    "feature_gates": "features of kube-proxy behind gates are always on or missing (see the README of the proxy)",
    "vmodule": "-v 1 logs everything of every module",
}


def with_options(document: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the configuration with the given options in place of its fields."""
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
    """Raise ConfigInvalid for an option that requests a missing feature."""
    for option, (wanted, what_to_do) in REFUSED.items():
        value = given[option]
        if value == wanted if wanted is not None else value not in ("", None):
            text = f"={str(value).lower()}" if isinstance(value, bool) else ""
            raise ConfigInvalid(f"{_spelled(option)}{text}: {what_to_do}")


def unused(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings about options without effect."""
    for option, why in UNUSED.items():
        if given[option]:
            yield f"{_spelled(option)} is not used: {why}"


def _spelled(option: str) -> str:
    return f"--{option.replace('_', '-')}"
