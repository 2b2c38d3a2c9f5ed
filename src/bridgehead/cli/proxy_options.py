"""The options of `bridgehead proxy`, and what they do to its KubeProxyConfiguration.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.times import parse_duration
from bridgehead.proxy.address_texts import canonical_address
from bridgehead.proxy.config import DEFAULT_MODE, DEFAULTS, ProxyConfig, settings_of, with_field
from bridgehead.proxy.config_reader import POSITIVE, invalid
from bridgehead.proxy.errors import ConfigInvalid

from .groups import ACCESS, ADDRESSES, ONCE, TUNING, WHAT
from .options import Option, Refusal, hidden, option, refused, rows_of, spelled, verbosity_row
from .parsing import level, parse_flag

# Sections in the field of an option that is for the mode in use. As in kube-proxy, periods of options named after
# iptables are for all modes but ipvs, and masquerading in mode ipvs is configured by the section of mode iptables.
_MODE_IN_USE = "<mode but ipvs>"
_MASQUERADING = "<masquerading mode>"

_LINES = "logs are unbuffered lines on standard error"
_TO_STDERR = "logs go to standard error; redirect standard error instead"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options, a row for each; those with a `field` override that field of the configuration.

    Options of kube-proxy without a text are accepted or refused; the proxy's README explains the effect of each here.
    """

    config: Path | None = option(None, WHAT, "KubeProxyConfiguration file; options override it.")
    proxy_mode: str = option(
        "", WHAT, "Proxy mode: nftables, iptables, ipvs or userspace.  [default: nftables]", field="mode"
    )
    cluster_cidr: str = option(
        "", WHAT, "Range of pod addresses, one for each IP family: 10.244.0.0/16,fd00::/48.", field="clusterCIDR"
    )
    service_cidr: str = option("", WHAT, "Range of cluster IPs. Default: the cluster's ServiceCIDR objects.")
    detect_local_mode: str = option(
        "",
        WHAT,
        "Detection of traffic from local pods: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix.",
        field="detectLocalMode",
    )
    pod_bridge_interface: str = option(
        "", WHAT, "Bridge of the pods, for --detect-local-mode BridgeInterface.", field="detectLocal.bridgeInterface"
    )
    pod_interface_name_prefix: str = option(
        "",
        WHAT,
        "Name prefix of pod interfaces, for --detect-local-mode InterfaceNamePrefix.",
        field="detectLocal.interfaceNamePrefix",
    )
    masquerade_all: bool | None = option(
        None, WHAT, "Masquerade every connection to a cluster IP (source NAT).", field=f"{_MASQUERADING}.masqueradeAll"
    )
    host_ports: bool = option(
        False,
        WHAT,
        "Map the host ports of this node's pods, where no CNI plug-in (portmap) does. Needs the right to watch pods.",
    )

    kubeconfig: str = option(
        "", ACCESS, "Kubeconfig file. Default: the pod's service account.", field="clientConnection.kubeconfig"
    )
    master: str = option(
        "", ACCESS, "URL of the API server, or of several, separated by commas; overrides the kubeconfig's."
    )
    node_name: str = option(
        "",
        ACCESS,
        "Name of this node's Node object. Default: the host name.",
        "--node-name",
        "--hostname-override",
        field="hostnameOverride",
    )
    kube_api_qps: float | None = hidden(None, field="clientConnection.qps")
    kube_api_burst: int | None = hidden(None, field="clientConnection.burst")
    kube_api_content_type: str = hidden("", without_effect="the client chooses the format itself")

    bind_address: str = option(
        "", ADDRESSES, "Primary IP address of this node. Default: from its Node object.", field="bindAddress"
    )
    nodeport_addresses: str = option(
        "",
        ADDRESSES,
        'Ranges of node addresses that serve node ports; "primary": the primary addresses only.',
        field="nodePortAddresses",
        is_list=True,
    )
    healthz_bind_address: str = option(
        "",
        ADDRESSES,
        "Address and port of /healthz; --healthz-port=0 disables it.  [default: 0.0.0.0:10256]",
        field="healthzBindAddress",
    )
    metrics_bind_address: str = option(
        "",
        ADDRESSES,
        "Address and port of /metrics; --metrics-port=0 disables it.  [default: 127.0.0.1:10249]",
        field="metricsBindAddress",
    )
    healthz_port: int | None = hidden(None, min=0, max=65535)
    metrics_port: int | None = hidden(None, min=0, max=65535)
    bind_address_hard_fail: bool | None = option(
        None,
        ADDRESSES,
        "Exit when the port of /healthz or /metrics is in use. Default: log an error and retry.",
        field="bindAddressHardFail",
    )
    iptables_localhost_nodeports: bool | None = option(
        None,
        ADDRESSES,
        "Serve node ports on 127.0.0.1, too (iptables mode).",
        "--iptables-localhost-nodeports/--no-iptables-localhost-nodeports",
        field="iptables.localhostNodePorts",
    )
    ipvs_exclude_cidrs: str = option(
        "",
        ADDRESSES,
        "Ranges whose IPVS virtual servers belong to other programs.",
        field="ipvs.excludeCIDRs",
        is_list=True,
    )

    config_sync_period: str = hidden("", field="configSyncPeriod", is_positive=True)
    iptables_masquerade_bit: int | None = option(
        None,
        TUNING,
        "Bit of the packet mark that requests masquerading.  [default: 14]",
        "--iptables-masquerade-bit",
        "--masquerade-bit",
        field=f"{_MASQUERADING}.masqueradeBit",
    )
    iptables_sync_period: str = option(
        "",
        TUNING,
        "Interval between comparisons of all rules with the kernel's.  [default: 30s]",
        "--iptables-sync-period",
        "--sync-period",
        field=f"{_MODE_IN_USE}.syncPeriod",
        is_positive=True,
    )
    iptables_min_sync_period: str = option(
        "",
        TUNING,
        "Minimum interval between two syncs.",
        "--iptables-min-sync-period",
        "--min-sync-period",
        field=f"{_MODE_IN_USE}.minSyncPeriod",
    )
    ipvs_sync_period: str = hidden("", field="ipvs.syncPeriod", is_positive=True)
    ipvs_min_sync_period: str = hidden("", field="ipvs.minSyncPeriod")
    ipvs_scheduler: str = option(
        "",
        TUNING,
        "IPVS scheduler: rr, wrr, lc, wlc, dh, sh, sed, nq, mh, lblc or lblcr.  [default: rr]",
        field="ipvs.scheduler",
    )
    ipvs_strict_arp: bool | None = option(
        None, TUNING, "Set the sysctls arp_ignore=1 and arp_announce=2.", field="ipvs.strictARP"
    )
    ipvs_tcp_timeout: str = option(
        "", TUNING, "IPVS timeout of idle TCP connections, for example 15m.", field="ipvs.tcpTimeout"
    )
    ipvs_tcpfin_timeout: str = option(
        "", TUNING, "IPVS timeout of TCP connections after a FIN.", field="ipvs.tcpFinTimeout"
    )
    ipvs_udp_timeout: str = option("", TUNING, "IPVS timeout of UDP flows.", field="ipvs.udpTimeout")
    conntrack_max_per_core: int | None = option(
        None,
        TUNING,
        "Maximum of tracked connections for each CPU core. 0: keep the kernel's value.",
        field="conntrack.maxPerCore",
    )
    conntrack_min: int | None = option(
        None,
        TUNING,
        "Lower bound of the maximum of tracked connections, whatever --conntrack-max-per-core yields.",
        field="conntrack.min",
    )
    conntrack_tcp_timeout_established: str = option(
        "",
        TUNING,
        "Conntrack timeout of idle established TCP connections. 0: keep the kernel's value.  [default: 24h]",
        field="conntrack.tcpEstablishedTimeout",
    )
    conntrack_tcp_timeout_close_wait: str = option(
        "",
        TUNING,
        "Conntrack timeout of half-closed TCP connections. 0: keep the kernel's value.  [default: 1h]",
        field="conntrack.tcpCloseWaitTimeout",
    )
    conntrack_tcp_be_liberal: bool | None = option(
        None, TUNING, "Set the sysctl nf_conntrack_tcp_be_liberal=1.", field="conntrack.tcpBeLiberal"
    )
    conntrack_udp_timeout: str = option(
        "",
        TUNING,
        "Conntrack timeout of unanswered UDP flows. 0: keep the kernel's value.",
        field="conntrack.udpTimeout",
    )
    conntrack_udp_timeout_stream: str = option(
        "",
        TUNING,
        "Conntrack timeout of answered UDP flows. 0: keep the kernel's value.",
        field="conntrack.udpStreamTimeout",
    )
    oom_score_adj: int | None = option(
        None, TUNING, "oom_score_adj of this process, from -1000 to 1000.  [default: -999]", field="oomScoreAdj"
    )

    boot_id_file: str = hidden("", without_effect="it is for cAdvisor, which is not used")
    machine_id_file: str = hidden("", without_effect="it is for cAdvisor, which is not used")
    feature_gates: str = hidden(
        "", without_effect="features of kube-proxy behind gates are always on or missing (see the README of the proxy)"
    )
    show_hidden_metrics_for_version: str = hidden("", field="showHiddenMetricsForVersion")
    profiling: bool | None = hidden(
        None, field="enableProfiling", refusal=Refusal(True, "there is no profiler; remove the option")
    )
    logging_format: str = hidden("", field="logging.format")
    logtostderr: bool | None = hidden(None, refusal=Refusal(False, _TO_STDERR))
    alsologtostderr: bool | None = hidden(None, without_effect=_LINES)
    stderrthreshold: str = hidden("", without_effect=_LINES)
    legacy_stderr_threshold_behavior: bool | None = hidden(None, without_effect=_LINES)
    log_dir: str = hidden("", refusal=Refusal(None, _TO_STDERR))
    log_file: str = hidden("", refusal=Refusal(None, _TO_STDERR))
    log_file_max_size: str = hidden("", without_effect=_LINES)
    log_flush_frequency: str = hidden("", without_effect=_LINES)
    log_text_split_stream: bool | None = hidden(None, refusal=Refusal(True, _TO_STDERR))
    log_text_info_buffer_size: str = hidden("", without_effect=_LINES)
    log_json_split_stream: bool | None = hidden(None, refusal=Refusal(True, _TO_STDERR))
    log_json_info_buffer_size: str = hidden("", without_effect=_LINES)
    log_backtrace_at: str = hidden("", without_effect=_LINES)
    one_output: bool | None = hidden(None, without_effect=_LINES)
    skip_headers: bool | None = hidden(None, without_effect=_LINES)
    skip_log_headers: bool | None = hidden(None, without_effect=_LINES)
    add_dir_header: bool | None = hidden(None, without_effect=_LINES)
    vmodule: str = hidden("", without_effect="-v 1 logs everything of every module")

    write_config_to: Path | None = option(
        None, ONCE, "Write the resulting KubeProxyConfiguration to this file and exit."
    )
    init_only: bool = option(False, ONCE, "Set the sysctls that need root and exit.")
    cleanup: bool = option(False, ONCE, "Remove this proxy's rules from the kernel and exit.")
    cleanup_leftovers: bool = option(
        False,
        ONCE,
        "Wait until kube-proxy serves this node, as --metrics-bind-address of it shows; remove the rules that it does "
        "not use and exit.",
    )
    dry_run: bool = option(False, ONCE, "Print the ruleset instead of applying it, and exit.")
    version: bool = option(False, ONCE, "Print the version and exit.")
    verbosity: int = verbosity_row("Verbosity: 1 logs every sync.", parse=level, metavar="LEVEL")


def with_options(document: Mapping[str, Any], options: Options) -> Mapping[str, Any]:
    """Return the configuration with the given options in place of its fields. Raises ConfigInvalid."""
    mode = settings_of(options.proxy_mode or document.get("mode") or DEFAULT_MODE)
    for name, row in rows_of(Options).items():
        field, value = _field_of(row, mode), getattr(options, name)
        if not field or value in ("", None):
            continue
        if row.is_positive and _is_zero(value):
            raise invalid(spelled(name), value, POSITIVE)
        if row.is_list:
            value = [part.strip() for part in value.split(",") if part.strip()]
        if value != []:
            document = with_field(document, field, value)
    is_alone = options.write_config_to is not None and options.config is None  # kube-proxy adds no port then
    for field, address, port in (
        ("healthzBindAddress", options.healthz_bind_address, options.healthz_port),
        ("metricsBindAddress", options.metrics_bind_address, options.metrics_port),
    ):
        document = _with_port(document, field, address, port, is_alone=is_alone)
    return document


def _field_of(row: Option, mode: str) -> str:
    """Return the field of the configuration that an option overrides in a mode; "": none."""
    section, _, name = row.field.rpartition(".")
    if section == _MASQUERADING:
        return f"{'iptables' if mode == 'ipvs' else mode}.{name}"
    if section == _MODE_IN_USE:
        return f"{mode}.{name}" if mode != "ipvs" else ""
    return row.field if section != "ipvs" or mode == "ipvs" else ""


def _with_port(
    document: Mapping[str, Any], field: str, address: str, port: int | None, *, is_alone: bool
) -> Mapping[str, Any]:
    """Return the configuration with the port of a deprecated option in a bind address that has none. 0 is no port."""
    default = str(DEFAULTS[field])
    if address and canonical_address(address) is not None:
        if is_alone:
            raise invalid(field, address, "must be IP:port")
        return with_field(document, field, join_host_port(address, int(port or default.rpartition(":")[2])))
    if port and not address:
        host = str(document.get(field) or default).rpartition(":")[0]
        return with_field(document, field, f"{host}:{port}")
    return document


def without_disabled(settings: ProxyConfig, options: Options) -> ProxyConfig:
    """Return the settings without the servers whose port is given as 0."""
    return replace(
        settings,
        healthz=None if options.healthz_port == 0 else settings.healthz,
        metrics=None if options.metrics_port == 0 else settings.metrics,
    )


def _is_zero(duration: str) -> bool:
    try:
        return parse_duration(duration) == 0
    except ValueError:  # `parse_config` reports it
        return False


def refuse(options: Options) -> None:
    """Raise ConfigInvalid for an option that requests a missing feature."""
    if text := refused(options):
        raise ConfigInvalid(text)
    for pair in filter(None, options.feature_gates.split(",")):
        gate, equals, value = pair.partition("=")
        if not equals:
            raise invalid("--feature-gates", pair, "malformed pair, expect string=bool")
        if parse_flag(value.strip()) is None:
            raise invalid("--feature-gates", pair, f"{gate.strip()} is neither true nor false")
