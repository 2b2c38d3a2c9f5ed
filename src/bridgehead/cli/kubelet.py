"""Run the pods of one node.

Containers are the node's runtime's (`bridgehead runtime`): they go on while no kubelet runs, and the next one finds
them. Run it in the node's network namespace.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated

import typer

# All of it is imported here, so that the kubelets of a lab share it with the process they are forked from.
from bridgehead.cli.failures import fail, reporting_failures
from bridgehead.cli.logs_setup import configure
from bridgehead.cli.parsing import path
from bridgehead.client.errors import ConfigError
from bridgehead.kubelet.errors import KubeletError
from bridgehead.kubelet.hosts import Resolver, parse_resolver
from bridgehead.kubelet.parts import DEFAULT_MAX_PIDS, NodeSettings
from bridgehead.kubelet.process import TlsFiles, run_kubelet
from bridgehead.kubelet.runtimes.runtime import RuntimeFailure
from bridgehead.objects.node_labels import find_restricted


def command(
    node_name: Annotated[str, typer.Option(help="Name of this node's Node object.")],
    kubeconfig: Annotated[Path, typer.Option(parser=path, help="How to reach the API server, and as whom.")],
    runtime_socket: Annotated[Path, typer.Option(parser=path, help="Unix socket of the node's runtime.")],
    pod_cidr: Annotated[str, typer.Option(help="Range of the node's pods, or two: 10.244.1.0/24,fd00::/64.")],
    node_ip: Annotated[str, typer.Option(help="Address of this node, or two of different families, with a comma.")],
    root_dir: Annotated[Path, typer.Option(parser=path, help="Directory for volumes and logs.")] = Path(
        "/var/lib/kubelet"
    ),
    cluster_dns: Annotated[str, typer.Option(help="Name server of pods; several with commas; '' for none.")] = (
        "10.96.0.10"
    ),
    cluster_domain: Annotated[str, typer.Option(help="Domain of Services.")] = "cluster.local",
    resolv_conf: Annotated[
        str, typer.Option(help="The node's resolver configuration; '' for none: nobody is asked, nothing searched.")
    ] = "/etc/resolv.conf",
    node_labels: Annotated[str, typer.Option(help="Further labels of the Node: k=v,k2=v2.")] = "",
    max_pods: Annotated[int, typer.Option(min=0, help="How many pods the node takes.")] = 110,
    pod_max_pids: Annotated[
        int, typer.Option(min=-1, help="How many processes and threads a container may have; -1: any number.")
    ] = DEFAULT_MAX_PIDS,
    termination_barrier: Annotated[
        float,
        typer.Option(
            min=0,
            help="How many seconds at most, inside its grace period, a deleted pod goes on serving until no node's"
            " proxy sends it new connections. 0: it is stopped at once, as in Kubernetes.",
        ),
    ] = 5.0,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of logs and exec.")] = 10250,
    tls_cert_file: Annotated[
        Path | None, typer.Option(parser=path, help="Certificate to serve with; none: no logs, no exec.")
    ] = None,
    tls_private_key_file: Annotated[Path | None, typer.Option(parser=path, help="Its private key.")] = None,
    client_ca_file: Annotated[
        Path | None, typer.Option(parser=path, help="CA of those who may ask for logs and exec.")
    ] = None,
    verbosity: Annotated[int, typer.Option("-v", "--v", help="Log level: 0, or 1 for developers.")] = 0,
) -> None:
    configure(verbosity)
    try:
        labels = _parse_labels(node_labels)
        pod_cidrs = tuple(str(ip_network(text)) for text in _one_of_each_family("--pod-cidr", pod_cidr))
        ips = tuple(str(ip_address(text)) for text in _one_of_each_family("--node-ip", node_ip))
        name_servers = tuple(str(ip_address(text)) for text in filter(None, cluster_dns.split(",")))
        if 0 < sum(file is not None for file in (tls_cert_file, tls_private_key_file, client_ca_file)) < 3:
            raise ValueError("--tls-cert-file, --tls-private-key-file and --client-ca-file go together")
    except ValueError as error:
        fail("kubelet", error, 2)
    with reporting_failures("kubelet", OSError, ConfigError, KubeletError, RuntimeFailure):
        settings = NodeSettings(
            name=node_name,
            ips=ips,
            pod_cidrs=pod_cidrs,
            root=root_dir.resolve(),  # below it no symbolic links are followed where pods may write
            cluster_dns=name_servers,
            cluster_domain=cluster_domain,
            resolver=_read_resolver(resolv_conf),
            labels=labels,
            max_pods=max_pods,
            pod_max_pids=pod_max_pids if pod_max_pids > 0 else None,
            termination_barrier=termination_barrier,
            port=port,
        )
        files = None
        if tls_cert_file and tls_private_key_file and client_ca_file:
            files = TlsFiles(tls_cert_file, tls_private_key_file, client_ca_file)
        run_kubelet(settings, kubeconfig, runtime_socket, files)


def _one_of_each_family(option: str, text: str) -> list[str]:
    """The one or two of a list with commas. Raises ValueError."""
    values = [value.strip() for value in text.split(",")]
    if len({":" in value for value in values}) < len(values):
        raise ValueError(f"{option}: {text!r} is not one, or one of each IP family")
    return values


def _read_resolver(path: str) -> Resolver:
    """Raises OSError."""
    if not path or not Path(path).exists():
        return Resolver()
    return parse_resolver(Path(path).read_text())


def _parse_labels(text: str) -> dict[str, str]:
    """Raises ValueError."""
    labels = {}
    for term in filter(None, text.split(",")):
        key, equals, value = term.partition("=")
        if not equals:
            raise ValueError(f"--node-labels: {term!r} is not key=value")
        labels[key.strip()] = value.strip()
    if restricted := find_restricted(labels):
        # The API server refuses them, so the node could never register.
        raise ValueError(
            f"unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: {', '.join(restricted)}"
        )
    return labels
