"""Program this node's kernel with the Services of a cluster, in the place of kube-proxy.

The proxy runs on a node of any cluster, in the node's network namespace, with CAP_NET_ADMIN. The file of --config is a
KubeProxyConfiguration; options have the names of kube-proxy's and override it. Without --kubeconfig the proxy uses the
service account of its pod.

Further options of kube-proxy are accepted without effect, or rejected with advice; this list omits them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from bridgehead.cli import logs_setup
from bridgehead.cli.failures import reporting_failures
from bridgehead.cli.flags import as_flags
from bridgehead.cli.groups import ACCESS, ADDRESSES, ONCE, TUNING, WHAT
from bridgehead.cli.parsing import level, path
from bridgehead.cli.proxy_options import refuse, unused, with_options, without_disabled
from bridgehead.client import ClientConfig, load_config, load_kubeconfig
from bridgehead.client.errors import ConfigError
from bridgehead.proxy.config import DEFAULTS, parse_config, require_mode
from bridgehead.proxy.config_reader import parse_cidrs
from bridgehead.proxy.errors import ConfigInvalid, ProxyError
from bridgehead.proxy.process import clean_up, run
from bridgehead.proxy.sysctls import apply_sysctls, plan_sysctls

log = logging.getLogger("bridgehead.proxy")

# As with Kubernetes' own programs, `--proxy_mode` is `--proxy-mode`.
CONTEXT = {"token_normalize_func": lambda token: token.replace("_", "-")}


def command(
    config: Annotated[
        Path | None, Option(parser=path, rich_help_panel=WHAT, help="KubeProxyConfiguration file; options override it.")
    ] = None,
    proxy_mode: Annotated[
        str,
        Option(rich_help_panel=WHAT, help="Proxy mode: nftables, iptables, ipvs or userspace.  [default: nftables]"),
    ] = "",
    cluster_cidr: Annotated[
        str,
        Option(rich_help_panel=WHAT, help="Range of pod addresses, one for each IP family: 10.244.0.0/16,fd00::/48."),
    ] = "",
    service_cidr: Annotated[
        str,
        Option(rich_help_panel=WHAT, help="Range of cluster IPs. Default: the cluster's ServiceCIDR objects."),
    ] = "",
    detect_local_mode: Annotated[
        str,
        Option(
            rich_help_panel=WHAT,
            help="Detection of traffic from local pods: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix.",
        ),
    ] = "",
    pod_bridge_interface: Annotated[
        str, Option(rich_help_panel=WHAT, help="Bridge of the pods, for --detect-local-mode BridgeInterface.")
    ] = "",
    pod_interface_name_prefix: Annotated[
        str,
        Option(
            rich_help_panel=WHAT, help="Name prefix of pod interfaces, for --detect-local-mode InterfaceNamePrefix."
        ),
    ] = "",
    masquerade_all: Annotated[
        bool | None,
        Option(
            "--masquerade-all", rich_help_panel=WHAT, help="Masquerade every connection to a cluster IP (source NAT)."
        ),
    ] = None,
    host_ports: Annotated[
        bool,
        Option(
            "--host-ports",
            rich_help_panel=WHAT,
            help="Map the host ports of this node's pods, where no CNI plug-in (portmap) does. Needs the right to watch"
            " pods.",
        ),
    ] = False,
    kubeconfig: Annotated[
        str, Option(rich_help_panel=ACCESS, help="Kubeconfig file. Default: the pod's service account.")
    ] = "",
    master: Annotated[
        str, Option(rich_help_panel=ACCESS, help="URL of the API server; overrides the kubeconfig's.")
    ] = "",
    node_name: Annotated[
        str,
        Option(
            "--node-name",
            "--hostname-override",
            rich_help_panel=ACCESS,
            help="Name of this node's Node object. Default: the host name.",
        ),
    ] = "",
    kube_api_qps: Annotated[float | None, Option(hidden=True)] = None,
    kube_api_burst: Annotated[int | None, Option(hidden=True)] = None,
    bind_address: Annotated[
        str, Option(rich_help_panel=ADDRESSES, help="Primary IP address of this node. Default: from its Node object.")
    ] = "",
    nodeport_addresses: Annotated[
        str,
        Option(
            rich_help_panel=ADDRESSES,
            help='Ranges of node addresses that serve node ports; "primary": the primary addresses only.',
        ),
    ] = "",
    healthz_bind_address: Annotated[
        str,
        Option(
            rich_help_panel=ADDRESSES,
            help="Address and port of /healthz; --healthz-port=0 disables it.  [default: 0.0.0.0:10256]",
        ),
    ] = "",
    metrics_bind_address: Annotated[
        str,
        Option(
            rich_help_panel=ADDRESSES,
            help="Address and port of /metrics; --metrics-port=0 disables it.  [default: 127.0.0.1:10249]",
        ),
    ] = "",
    healthz_port: Annotated[int | None, Option(hidden=True, min=0, max=65535)] = None,
    metrics_port: Annotated[int | None, Option(hidden=True, min=0, max=65535)] = None,
    bind_address_hard_fail: Annotated[
        bool | None,
        Option(
            "--bind-address-hard-fail",
            rich_help_panel=ADDRESSES,
            help="Exit when the port of /healthz or /metrics is in use. Default: log an error and retry.",
        ),
    ] = None,
    iptables_localhost_nodeports: Annotated[
        bool | None, Option(rich_help_panel=ADDRESSES, help="Serve node ports on 127.0.0.1, too (iptables mode).")
    ] = None,
    ipvs_exclude_cidrs: Annotated[
        str, Option(rich_help_panel=ADDRESSES, help="Ranges whose IPVS virtual servers belong to other programs.")
    ] = "",
    iptables_masquerade_bit: Annotated[
        int | None,
        Option(
            "--iptables-masquerade-bit",
            "--masquerade-bit",
            rich_help_panel=TUNING,
            help="Bit of the packet mark that requests masquerading.  [default: 14]",
        ),
    ] = None,
    iptables_sync_period: Annotated[
        str,
        Option(
            "--iptables-sync-period",
            "--sync-period",
            rich_help_panel=TUNING,
            help="Interval between comparisons of all rules with the kernel's.  [default: 30s]",
        ),
    ] = "",
    iptables_min_sync_period: Annotated[
        str,
        Option(
            "--iptables-min-sync-period",
            "--min-sync-period",
            rich_help_panel=TUNING,
            help="Minimum interval between two syncs.",
        ),
    ] = "",
    ipvs_sync_period: Annotated[str, Option(hidden=True)] = "",
    ipvs_min_sync_period: Annotated[str, Option(hidden=True)] = "",
    ipvs_scheduler: Annotated[
        str,
        Option(
            rich_help_panel=TUNING,
            help="IPVS scheduler: rr, wrr, lc, wlc, dh, sh, sed, nq, mh, lblc or lblcr.  [default: rr]",
        ),
    ] = "",
    ipvs_strict_arp: Annotated[
        bool | None,
        Option("--ipvs-strict-arp", rich_help_panel=TUNING, help="Set the sysctls arp_ignore=1 and arp_announce=2."),
    ] = None,
    ipvs_tcp_timeout: Annotated[
        str, Option(rich_help_panel=TUNING, help="IPVS timeout of idle TCP connections, for example 15m.")
    ] = "",
    ipvs_tcpfin_timeout: Annotated[
        str, Option(rich_help_panel=TUNING, help="IPVS timeout of TCP connections after a FIN.")
    ] = "",
    ipvs_udp_timeout: Annotated[str, Option(rich_help_panel=TUNING, help="IPVS timeout of UDP flows.")] = "",
    conntrack_max_per_core: Annotated[
        int | None,
        Option(
            rich_help_panel=TUNING,
            help="Maximum of tracked connections for each CPU core. 0: keep the kernel's value.",
        ),
    ] = None,
    conntrack_min: Annotated[
        int | None,
        Option(
            rich_help_panel=TUNING,
            help="Lower bound of the maximum of tracked connections, whatever --conntrack-max-per-core yields.",
        ),
    ] = None,
    conntrack_tcp_timeout_established: Annotated[
        str,
        Option(
            rich_help_panel=TUNING,
            help="Conntrack timeout of idle established TCP connections. 0: keep the kernel's value.  [default: 24h]",
        ),
    ] = "",
    conntrack_tcp_timeout_close_wait: Annotated[
        str,
        Option(
            rich_help_panel=TUNING,
            help="Conntrack timeout of half-closed TCP connections. 0: keep the kernel's value.  [default: 1h]",
        ),
    ] = "",
    conntrack_tcp_be_liberal: Annotated[
        bool | None,
        Option(
            "--conntrack-tcp-be-liberal", rich_help_panel=TUNING, help="Set the sysctl nf_conntrack_tcp_be_liberal=1."
        ),
    ] = None,
    conntrack_udp_timeout: Annotated[
        str,
        Option(rich_help_panel=TUNING, help="Conntrack timeout of unanswered UDP flows. 0: keep the kernel's value."),
    ] = "",
    conntrack_udp_timeout_stream: Annotated[
        str,
        Option(rich_help_panel=TUNING, help="Conntrack timeout of answered UDP flows. 0: keep the kernel's value."),
    ] = "",
    oom_score_adj: Annotated[
        int | None,
        Option(rich_help_panel=TUNING, help="oom_score_adj of this process, from -1000 to 1000.  [default: -999]"),
    ] = None,
    # Options of kube-proxy that manifests use; the proxy's README explains the effect of each here.
    boot_id_file: Annotated[str, Option(hidden=True)] = "",
    machine_id_file: Annotated[str, Option(hidden=True)] = "",
    config_sync_period: Annotated[str, Option(hidden=True)] = "",
    feature_gates: Annotated[str, Option(hidden=True)] = "",
    kube_api_content_type: Annotated[str, Option(hidden=True)] = "",
    profiling: Annotated[bool | None, Option("--profiling", hidden=True)] = None,
    show_hidden_metrics_for_version: Annotated[str, Option(hidden=True)] = "",
    logging_format: Annotated[str, Option(hidden=True)] = "",
    log_flush_frequency: Annotated[str, Option(hidden=True)] = "",
    log_text_split_stream: Annotated[bool | None, Option("--log-text-split-stream", hidden=True)] = None,
    log_text_info_buffer_size: Annotated[str, Option(hidden=True)] = "",
    log_json_split_stream: Annotated[bool | None, Option("--log-json-split-stream", hidden=True)] = None,
    log_json_info_buffer_size: Annotated[str, Option(hidden=True)] = "",
    logtostderr: Annotated[bool | None, Option("--logtostderr", hidden=True)] = None,
    alsologtostderr: Annotated[bool | None, Option("--alsologtostderr", hidden=True)] = None,
    log_dir: Annotated[str, Option(hidden=True)] = "",
    log_file: Annotated[str, Option(hidden=True)] = "",
    log_file_max_size: Annotated[str, Option(hidden=True)] = "",
    one_output: Annotated[bool | None, Option("--one-output", hidden=True)] = None,
    skip_headers: Annotated[bool | None, Option("--skip-headers", hidden=True)] = None,
    skip_log_headers: Annotated[bool | None, Option("--skip-log-headers", hidden=True)] = None,
    add_dir_header: Annotated[bool | None, Option("--add-dir-header", hidden=True)] = None,
    log_backtrace_at: Annotated[str, Option(hidden=True)] = "",
    stderrthreshold: Annotated[str, Option(hidden=True)] = "",
    legacy_stderr_threshold_behavior: Annotated[
        bool | None, Option("--legacy-stderr-threshold-behavior", hidden=True)
    ] = None,
    vmodule: Annotated[str, Option(hidden=True)] = "",
    write_config_to: Annotated[
        Path | None,
        Option(
            parser=path, rich_help_panel=ONCE, help="Write the resulting KubeProxyConfiguration to this file and exit."
        ),
    ] = None,
    init_only: Annotated[
        bool,
        Option("--init-only", rich_help_panel=ONCE, help="Set the sysctls that need root and exit."),
    ] = False,
    cleanup: Annotated[
        bool, Option("--cleanup", rich_help_panel=ONCE, help="Remove this proxy's rules from the kernel and exit.")
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", rich_help_panel=ONCE, help="Print the ruleset instead of applying it, and exit.")
    ] = False,
    version: Annotated[bool, Option("--version", rich_help_panel=ONCE, help="Print the version and exit.")] = False,
    verbosity: Annotated[
        int, Option("-v", "--v", parser=level, metavar="LEVEL", help="Verbosity: 1 logs every sync.")
    ] = 0,
) -> None:
    given = dict(locals())
    if version:
        from bridgehead import __version__

        sys.stdout.write(f"bridgehead {__version__}\n")
        return
    logs_setup.configure(verbosity)
    with reporting_failures("proxy", ProxyError, ConfigError):
        refuse(given)
        require_mode(proxy_mode)
        document = with_options(_read_document(config, proxy_mode), given)
        settings = parse_config(document)
        logs_setup.configure(max(verbosity, settings.verbosity))
        name = (settings.hostname_override or socket.gethostname()).strip().lower()
        settings = without_disabled(replace(settings, hostname_override=name, host_ports=host_ports), given)
        service_cidrs = parse_cidrs("--service-cidr", service_cidr)
        for warning in settings.warnings:
            log.warning("%s: %s", config or "options", warning)
        for warning in unused(given):
            log.warning("%s", warning)
        if write_config_to is not None:
            _write_document(document, write_config_to)
        elif cleanup:
            asyncio.run(clean_up())
        elif init_only:
            apply_sysctls(plan_sysctls(settings, os.cpu_count() or 1), refused=logging.WARNING)
        else:
            server = client_config(settings.kubeconfig, master)
            asyncio.run(run(settings, document, server, service_cidrs, dry_run, as_flags(given)))


def client_config(kubeconfig: str, master: str) -> ClientConfig:
    """Return the access to the API server; `master` overrides the kubeconfig's address. Raises ConfigError."""
    if not master:
        return load_config(kubeconfig or None)
    config = load_kubeconfig(kubeconfig) if kubeconfig else ClientConfig("")
    if "://" not in master:
        has_tls = config.insecure or config.ca is not None or config.client_certificate is not None
        master = f"{'https' if has_tls else 'http'}://{master}"
    if master.startswith("http:"):  # credentials are for https only
        config = ClientConfig("", impersonation=config.impersonation, proxy_url=config.proxy_url)
    return replace(config, server=master.rstrip("/"))


def _read_document(path: Path | None, mode: str) -> Mapping[str, Any]:
    if path is None:
        return DEFAULTS
    from bridgehead.yaml_loader import UnusableYaml, load

    try:
        document = load(path.read_bytes())
        parse_config(document, mode)  # here, so that the error names the file
    except OSError as error:
        raise ConfigInvalid(f"{path}: {error.strerror}") from error
    except UnusableYaml as error:
        raise ConfigInvalid(f"{path}: not YAML: {error}") from error
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{path}: {error}") from error
    result: Mapping[str, Any] = document
    return result


def _write_document(document: Mapping[str, Any], path: Path) -> None:
    import yaml

    try:
        path.write_text(yaml.safe_dump(dict(document)))
    except OSError as error:
        raise ConfigInvalid(f"{path}: {error.strerror}") from error
    log.info("wrote the configuration to %s", path)
