"""Run the pods of one node.

Containers belong to the node's runtime (`bridgehead runtime`): they survive a restart of the kubelet. Run the kubelet
in the node's network namespace.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated

import typer

# Everything is imported here, so that the kubelets of a lab share it with the process that forks them.
from bridgehead.cli.failures import fail, reporting_failures
from bridgehead.cli.flags import flags_of
from bridgehead.cli.groups import ACCESS, KUBELET_SERVER, NODE, PODS
from bridgehead.cli.logs_setup import configure
from bridgehead.cli.parsing import path
from bridgehead.client.errors import ConfigError
from bridgehead.images.service.client import PullerClient
from bridgehead.kubelet.errors import KubeletError
from bridgehead.kubelet.node.resolv_conf import Resolver, parse_resolver
from bridgehead.kubelet.node.settings import DEFAULT_MAX_PIDS, NodeSettings
from bridgehead.kubelet.process import TlsFiles, run_kubelet
from bridgehead.kubelet.runtimes.runtime import RuntimeFailure
from bridgehead.objects.node_labels import find_restricted
from bridgehead.tls_offers import parse_offer


def command(
    context: typer.Context,
    node_name: Annotated[str, typer.Option(rich_help_panel=NODE, help="Name of this node's Node object.")],
    kubeconfig: Annotated[
        Path, typer.Option(rich_help_panel=ACCESS, parser=path, help="Kubeconfig file, with the node's credentials.")
    ],
    runtime_socket: Annotated[
        Path, typer.Option(rich_help_panel=NODE, parser=path, help="Unix socket of the node's runtime.")
    ],
    pod_cidr: Annotated[
        str,
        typer.Option(
            rich_help_panel=NODE, help="Range of pod addresses, one for each IP family: 10.244.1.0/24,fd00::/64."
        ),
    ],
    node_ip: Annotated[
        str,
        typer.Option(rich_help_panel=NODE, help="Address of this node, one for each IP family, separated by a comma."),
    ],
    content_dir: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=NODE,
            parser=path,
            help="Content store of pulled images, with the socket of the process that pulls. Default: pull nothing.",
        ),
    ] = None,
    local_registries_only: Annotated[
        bool,
        typer.Option(
            "--local-registries-only",
            rich_help_panel=NODE,
            help="Do not even ask the process that pulls for images of registries that are not on its own machine.",
        ),
    ] = False,
    root_dir: Annotated[
        Path, typer.Option(rich_help_panel=NODE, parser=path, help="Directory for volumes and logs.")
    ] = Path("/var/lib/kubelet"),
    cluster_dns: Annotated[
        str, typer.Option(rich_help_panel=PODS, help="Name servers of pods, separated by commas; '' for none.")
    ] = ("10.96.0.10"),
    cluster_domain: Annotated[
        str, typer.Option(rich_help_panel=PODS, help="Domain of the cluster's Services.")
    ] = "cluster.local",
    pod_manifest_path: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=PODS, parser=path, help="Directory of manifests of static pods. Default: no static pods."
        ),
    ] = None,
    resolv_conf: Annotated[
        str,
        typer.Option(
            rich_help_panel=PODS,
            help="The node's resolver configuration; '': none, pods get no name servers and no search domains.",
        ),
    ] = "/etc/resolv.conf",
    node_labels: Annotated[str, typer.Option(rich_help_panel=NODE, help="Further labels of the Node: k=v,k2=v2.")] = "",
    max_pods: Annotated[int, typer.Option(rich_help_panel=PODS, min=0, help="Maximum number of pods.")] = 110,
    pod_max_pids: Annotated[
        int,
        typer.Option(
            rich_help_panel=PODS, min=-1, help="Maximum number of processes and threads of a container. -1: unlimited."
        ),
    ] = DEFAULT_MAX_PIDS,
    image_gc_high_threshold: Annotated[
        int,
        typer.Option(
            rich_help_panel=NODE,
            min=0,
            max=100,
            help="Percent of the disk above which unused images are removed. 100: never.",
        ),
    ] = 85,
    image_gc_low_threshold: Annotated[
        int,
        typer.Option(
            rich_help_panel=NODE, min=0, max=100, help="Percent of the disk down to which unused images are removed."
        ),
    ] = 80,
    minimum_image_ttl_duration: Annotated[
        float,
        typer.Option(rich_help_panel=NODE, min=0, help="Time in seconds for which an unused image stays at least."),
    ] = 120.0,
    termination_barrier: Annotated[
        float,
        typer.Option(
            rich_help_panel=PODS,
            min=0,
            help="Maximum time in seconds, within the grace period, that a deleted pod keeps serving until no node's"
            " proxy sends it new connections. 0: stop the pod at once, as Kubernetes does.",
        ),
    ] = 5.0,
    port: Annotated[
        int, typer.Option(rich_help_panel=KUBELET_SERVER, min=0, max=65535, help="Port of logs and exec.")
    ] = 10250,
    tls_cert_file: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=KUBELET_SERVER,
            parser=path,
            help="Serving certificate. Without it, kubectl logs and exec do not work.",
        ),
    ] = None,
    tls_cipher_suites: Annotated[
        str,
        typer.Option(
            rich_help_panel=KUBELET_SERVER,
            help="Cipher suites of TLS 1.2, separated by commas, under Go's names."
            " Default: ECDHE with AES-GCM or ChaCha20-Poly1305.",
        ),
    ] = "",
    tls_min_version: Annotated[
        str,
        typer.Option(
            rich_help_panel=KUBELET_SERVER, help="Oldest version of TLS: VersionTLS12 (default) or VersionTLS13."
        ),
    ] = "",
    tls_private_key_file: Annotated[
        Path | None,
        typer.Option(rich_help_panel=KUBELET_SERVER, parser=path, help="Private key of the serving certificate."),
    ] = None,
    client_ca_file: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=KUBELET_SERVER, parser=path, help="CA of the clients that may request logs and exec."
        ),
    ] = None,
    verbosity: Annotated[int, typer.Option("-v", "--v", help="Verbosity: 0 for operators, 1 for developers.")] = 0,
) -> None:
    configure(verbosity)
    try:
        labels = _parse_labels(node_labels)
        pod_cidrs = tuple(str(ip_network(text)) for text in _one_of_each_family("--pod-cidr", pod_cidr))
        ips = tuple(str(ip_address(text)) for text in _one_of_each_family("--node-ip", node_ip))
        name_servers = tuple(str(ip_address(text)) for text in filter(None, cluster_dns.split(",")))
        if 0 < sum(file is not None for file in (tls_cert_file, tls_private_key_file, client_ca_file)) < 3:
            raise ValueError("--tls-cert-file, --tls-private-key-file and --client-ca-file go together")
        offer = parse_offer(tls_min_version, tls_cipher_suites)
        if image_gc_low_threshold >= image_gc_high_threshold:
            raise ValueError("--image-gc-low-threshold has to be less than --image-gc-high-threshold")
    except ValueError as error:
        fail("kubelet", error, 2)
    with reporting_failures("kubelet", OSError, ConfigError, KubeletError, RuntimeFailure):
        settings = NodeSettings(
            name=node_name,
            ips=ips,
            pod_cidrs=pod_cidrs,
            root=root_dir.resolve(),  # below this path, symbolic links are not followed where pods can write
            cluster_dns=name_servers,
            cluster_domain=cluster_domain,
            resolver=_read_resolver(resolv_conf),
            labels=labels,
            max_pods=max_pods,
            pod_max_pids=pod_max_pids if pod_max_pids > 0 else None,
            termination_barrier=termination_barrier,
            port=port,
            static_pods=pod_manifest_path,
            image_gc_high_threshold=image_gc_high_threshold,
            image_gc_low_threshold=image_gc_low_threshold,
            image_minimum_gc_age=minimum_image_ttl_duration,
            flags=flags_of(context),
        )
        files = None
        if tls_cert_file and tls_private_key_file and client_ca_file:
            files = TlsFiles(tls_cert_file, tls_private_key_file, client_ca_file, offer)
        puller = PullerClient(content_dir, local_only=local_registries_only) if content_dir else None
        run_kubelet(settings, kubeconfig, runtime_socket, files, puller)


def _one_of_each_family(option: str, text: str) -> list[str]:
    """Split a list of one value, or one for each IP family. Raises ValueError."""
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
