"""Mapping of the options of `bridgehead proxy` to fields of a KubeProxyConfiguration, and options that are rejected.

Keys are the names of the parameters of the command. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.times import parse_duration
from bridgehead.proxy.address_texts import canonical_address
from bridgehead.proxy.config import DEFAULT_MODE, DEFAULTS, ProxyConfig, settings_of, with_field
from bridgehead.proxy.config_reader import POSITIVE, invalid
from bridgehead.proxy.errors import ConfigInvalid

from .parsing import parse_flag

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
    "config_sync_period": "configSyncPeriod",
    "show_hidden_metrics_for_version": "showHiddenMetricsForVersion",
    "profiling": "enableProfiling",
    "logging_format": "logging.format",
}
# Options whose value is a comma-separated list.
LISTS = {"nodeport_addresses": "nodePortAddresses", "ipvs_exclude_cidrs": "ipvs.excludeCIDRs"}
# Options of the mode in use. As in kube-proxy, those named after iptables are for all modes but ipvs.
PERIODS = {"sync_period": "syncPeriod", "min_sync_period": "minSyncPeriod"}
# The same for masquerading, which mode ipvs does by the section of mode iptables.
MASQUERADING = {"masquerade_all": "masqueradeAll", "iptables_masquerade_bit": "masqueradeBit"}
# Options whose value 0 is an error, although 0 in the file is the default.
POSITIVE_PERIODS = ("config_sync_period", "iptables_sync_period", "ipvs_sync_period")
# Deprecated options that set only the port of an address. 0: do not serve.
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
    mode = settings_of(given["proxy_mode"] or document.get("mode") or DEFAULT_MODE)
    prefix, masquerading = ("ipvs", "iptables") if mode == "ipvs" else ("iptables", mode)
    fields = {
        **FIELDS,
        **LISTS,
        **{f"{prefix}_{option}": f"{mode}.{field}" for option, field in PERIODS.items()},
        **{option: f"{masquerading}.{field}" for option, field in MASQUERADING.items()},
    }
    for option, field in fields.items():
        value = given[option]
        if option in LISTS:
            value = [part.strip() for part in value.split(",") if part.strip()]
        if option in POSITIVE_PERIODS and value and _is_zero(value):
            raise invalid(_spelled(option), value, POSITIVE)
        if value not in ("", None, []) and not (option.startswith("ipvs_") and mode != "ipvs"):
            document = with_field(document, field, value)
    for option, address in PORTS.items():
        field, port = FIELDS[address], given[option]
        default = str(DEFAULTS[field])
        if given[address] and canonical_address(given[address]) is not None:
            if given["write_config_to"] is not None and given["config"] is None:
                raise invalid(field, given[address], "must be IP:port")  # kube-proxy adds no port then
            port = port or default.rpartition(":")[2]
            document = with_field(document, field, join_host_port(given[address], int(port)))
        elif port and not given[address]:
            host = str(document.get(field) or default).rpartition(":")[0]
            document = with_field(document, field, f"{host}:{port}")
    return document


def without_disabled(settings: ProxyConfig, given: Mapping[str, Any]) -> ProxyConfig:
    """Return the settings without the servers whose port is given as 0."""
    return replace(
        settings,
        healthz=None if given["healthz_port"] == 0 else settings.healthz,
        metrics=None if given["metrics_port"] == 0 else settings.metrics,
    )


def _is_zero(duration: str) -> bool:
    try:
        return parse_duration(duration) == 0
    except ValueError:  # `parse_config` reports it
        return False


def refuse(given: Mapping[str, Any]) -> None:
    """Raise ConfigInvalid for an option that requests a missing feature."""
    for option, (wanted, what_to_do) in REFUSED.items():
        value = given[option]
        if value == wanted if wanted is not None else value not in ("", None):
            text = f"={str(value).lower()}" if isinstance(value, bool) else ""
            raise ConfigInvalid(f"{_spelled(option)}{text}: {what_to_do}")
    for pair in filter(None, given["feature_gates"].split(",")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise invalid("--feature-gates", pair, "malformed pair, expect string=bool")
        if parse_flag(value.strip()) is None:
            raise invalid("--feature-gates", pair, f"{name.strip()} is neither true nor false")


def unused(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings about options without effect."""
    for option, why in UNUSED.items():
        if given[option]:
            yield f"{_spelled(option)} is not used: {why}"


def _spelled(option: str) -> str:
    return f"--{option.replace('_', '-')}"
