"""Run the pods of one node.

Containers are the node's runtime's (`bridgehead runtime`): they go on while no kubelet runs, and the next one finds
them. Run it in the node's network namespace.
"""

from __future__ import annotations

import sys
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, NoReturn

import typer

# All of it is imported here, so that the kubelets of a lab share it with the process they are forked from.
from bridgehead.cli.logs_setup import configure
from bridgehead.client.errors import ConfigError
from bridgehead.kubelet.errors import KubeletError
from bridgehead.kubelet.hosts import Resolver, parse_resolver
from bridgehead.kubelet.parts import NodeSettings
from bridgehead.kubelet.process import TlsFiles, run_kubelet
from bridgehead.kubelet.runtimes.runtime import RuntimeFailure


def command(
    node_name: Annotated[str, typer.Option(help="Name of this node's Node object.")],
    kubeconfig: Annotated[Path, typer.Option(help="How to reach the API server, and as whom.")],
    runtime_socket: Annotated[Path, typer.Option(help="Unix socket of the node's runtime.")],
    pod_cidr: Annotated[str, typer.Option(help="Range of the node's pods.")],
    node_ip: Annotated[str, typer.Option(help="Address of this node.")],
    root_dir: Annotated[Path, typer.Option(help="Directory for volumes and logs.")] = Path("/var/lib/kubelet"),
    cluster_dns: Annotated[str, typer.Option(help="Name server of pods; several with commas; '' for none.")] = (
        "10.96.0.10"
    ),
    cluster_domain: Annotated[str, typer.Option(help="Domain of Services.")] = "cluster.local",
    resolv_conf: Annotated[Path, typer.Option(help="The node's resolver configuration.")] = Path("/etc/resolv.conf"),
    node_labels: Annotated[str, typer.Option(help="Further labels of the Node: k=v,k2=v2.")] = "",
    max_pods: Annotated[int, typer.Option(help="How many pods the node takes.")] = 110,
    termination_delay: Annotated[
        float,
        typer.Option(help="Seconds that a ready pod goes on serving when it is deleted, inside its grace period."),
    ] = 1.0,
    port: Annotated[int, typer.Option(help="Port of logs and exec.")] = 10250,
    tls_cert_file: Annotated[
        Path | None, typer.Option(help="Certificate to serve with; none: no logs, no exec.")
    ] = None,
    tls_private_key_file: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
    client_ca_file: Annotated[Path | None, typer.Option(help="CA of those who may ask for logs and exec.")] = None,
    verbosity: Annotated[int, typer.Option("-v", "--v", help="Log level: 0, or 1 for developers.")] = 0,
) -> None:
    configure(verbosity)
    try:
        labels = _parse_labels(node_labels)
        ip_network(pod_cidr)
        ip_address(node_ip)
    except ValueError as error:
        sys.stderr.write(f"bridgehead kubelet: {error}\n")
        raise SystemExit(2) from error
    try:
        text = resolv_conf.read_text() if resolv_conf.exists() else ""
        settings = NodeSettings(
            name=node_name,
            ip=node_ip,
            pod_cidr=pod_cidr,
            root=root_dir.absolute(),
            cluster_dns=tuple(filter(None, cluster_dns.split(","))),
            cluster_domain=cluster_domain,
            resolver=parse_resolver(text) if text else Resolver(),
            labels=labels,
            max_pods=max_pods,
            termination_delay=termination_delay,
            port=port,
        )
        files = None
        if tls_cert_file and tls_private_key_file and client_ca_file:
            files = TlsFiles(tls_cert_file, tls_private_key_file, client_ca_file)
        run_kubelet(settings, kubeconfig, runtime_socket, files)
    except (OSError, ConfigError, KubeletError, RuntimeFailure) as error:
        _fail(error)


def _parse_labels(text: str) -> dict[str, str]:
    """Raises ValueError."""
    labels = {}
    for term in filter(None, text.split(",")):
        key, equals, value = term.partition("=")
        if not equals:
            raise ValueError(f"--node-labels: {term!r} is not key=value")
        labels[key.strip()] = value.strip()
    return labels


def _fail(error: Exception) -> NoReturn:
    sys.stderr.write(f"bridgehead kubelet: {error}\n")
    raise SystemExit(1)
