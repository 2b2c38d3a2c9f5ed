"""Run the pods of one node.

Containers belong to the node's runtime (`bridgehead runtime`): they survive a restart of the kubelet. Run the kubelet
in the node's network namespace.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path

from bridgehead.client.errors import ConfigError
from bridgehead.images.service.client import PullerClient
from bridgehead.kubelet.errors import KubeletError
from bridgehead.kubelet.node.resolv_conf import Resolver, parse_resolver
from bridgehead.kubelet.node.settings import DEFAULT_MAX_PIDS, NodeSettings
from bridgehead.kubelet.process import TlsFiles, run_kubelet
from bridgehead.kubelet.runtimes.runtime import RuntimeFailure
from bridgehead.objects.node_labels import find_restricted
from bridgehead.tls_offers import parse_offer

# Everything is imported here, so that the kubelets of a lab share it with the process that forks them.
from .exit_codes import fail, reporting_failures
from .groups import ACCESS, KUBELET_SERVER, NODE, PODS
from .logs_setup import configure
from .options import REQUIRED, option, verbosity_row
from .subcommand import as_flags


@dataclass(frozen=True, kw_only=True)
class Options:
    node_name: str = option(REQUIRED, NODE, "Name of this node's Node object.")
    kubeconfig: Path = option(REQUIRED, ACCESS, "Kubeconfig file, with the node's credentials.")
    runtime_socket: Path = option(REQUIRED, NODE, "Unix socket of the node's runtime.")
    pod_cidr: str = option(REQUIRED, NODE, "Range of pod addresses, one for each IP family: 10.244.1.0/24,fd00::/64.")
    node_ip: str = option(REQUIRED, NODE, "Address of this node, one for each IP family, separated by a comma.")
    content_dir: Path | None = option(
        None, NODE, "Content store of pulled images, with the socket of the process that pulls. Default: pull nothing."
    )
    local_registries_only: bool = option(
        False, NODE, "Do not even ask the process that pulls for images of registries that are not on its own machine."
    )
    root_dir: Path = option(Path("/var/lib/kubelet"), NODE, "Directory for volumes and logs.")
    cluster_dns: str = option("10.96.0.10", PODS, "Name servers of pods, separated by commas; '' for none.")
    cluster_domain: str = option("cluster.local", PODS, "Domain of the cluster's Services.")
    pod_manifest_path: Path | None = option(
        None, PODS, "Directory of manifests of static pods. Default: no static pods."
    )
    resolv_conf: str = option(
        "/etc/resolv.conf",
        PODS,
        "The node's resolver configuration; '': none, pods get no name servers and no search domains.",
    )
    node_labels: str = option("", NODE, "Further labels of the Node: k=v,k2=v2.")
    max_pods: int = option(110, PODS, "Maximum number of pods.", min=0)
    pod_max_pids: int = option(
        DEFAULT_MAX_PIDS, PODS, "Maximum number of processes and threads of a container. -1: unlimited.", min=-1
    )
    image_gc_high_threshold: int = option(
        85, NODE, "Percent of the disk above which unused images are removed. 100: never.", min=0, max=100
    )
    image_gc_low_threshold: int = option(
        80, NODE, "Percent of the disk down to which unused images are removed.", min=0, max=100
    )
    minimum_image_ttl_duration: float = option(
        120.0, NODE, "Time in seconds for which an unused image stays at least.", min=0
    )
    termination_barrier: float = option(
        5.0,
        PODS,
        "Maximum time in seconds, within the grace period, that a deleted pod keeps serving until no node's"
        " proxy sends it new connections. 0: stop the pod at once, as Kubernetes does.",
        min=0,
    )
    port: int = option(10250, KUBELET_SERVER, "Port of logs and exec.", min=0, max=65535)
    tls_cert_file: Path | None = option(
        None, KUBELET_SERVER, "Serving certificate. Without it, kubectl logs and exec do not work."
    )
    tls_cipher_suites: str = option(
        "",
        KUBELET_SERVER,
        "Cipher suites of TLS 1.2, separated by commas, under Go's names."
        " Default: ECDHE with AES-GCM or ChaCha20-Poly1305.",
    )
    tls_min_version: str = option("", KUBELET_SERVER, "Oldest version of TLS: VersionTLS12 (default) or VersionTLS13.")
    tls_private_key_file: Path | None = option(None, KUBELET_SERVER, "Private key of the serving certificate.")
    client_ca_file: Path | None = option(None, KUBELET_SERVER, "CA of the clients that may request logs and exec.")
    verbosity: int = verbosity_row()


def command(options: Options) -> None:
    configure(options.verbosity)
    try:
        labels = _parse_labels(options.node_labels)
        pod_cidrs = tuple(str(ip_network(text)) for text in _one_of_each_family("--pod-cidr", options.pod_cidr))
        ips = tuple(str(ip_address(text)) for text in _one_of_each_family("--node-ip", options.node_ip))
        name_servers = tuple(str(ip_address(text)) for text in filter(None, options.cluster_dns.split(",")))
        serving = (options.tls_cert_file, options.tls_private_key_file, options.client_ca_file)
        if any(serving) and not all(serving):
            raise ValueError("--tls-cert-file, --tls-private-key-file and --client-ca-file go together")
        offer = parse_offer(options.tls_min_version, options.tls_cipher_suites)
        if options.image_gc_low_threshold >= options.image_gc_high_threshold:
            raise ValueError("--image-gc-low-threshold has to be less than --image-gc-high-threshold")
    except ValueError as error:
        fail("kubelet", error, 2)
    with reporting_failures("kubelet", OSError, ConfigError, KubeletError, RuntimeFailure):
        settings = NodeSettings(
            name=options.node_name,
            ips=ips,
            pod_cidrs=pod_cidrs,
            root=options.root_dir.resolve(),  # below this path, symbolic links are not followed where pods can write
            cluster_dns=name_servers,
            cluster_domain=options.cluster_domain,
            resolver=_read_resolver(options.resolv_conf),
            labels=labels,
            max_pods=options.max_pods,
            pod_max_pids=options.pod_max_pids if options.pod_max_pids > 0 else None,
            termination_barrier=options.termination_barrier,
            port=options.port,
            static_pods=options.pod_manifest_path,
            image_gc_high_threshold=options.image_gc_high_threshold,
            image_gc_low_threshold=options.image_gc_low_threshold,
            image_minimum_gc_age=options.minimum_image_ttl_duration,
            flags=as_flags(vars(options)),
        )
        files = None
        if options.tls_cert_file and options.tls_private_key_file and options.client_ca_file:
            files = TlsFiles(options.tls_cert_file, options.tls_private_key_file, options.client_ca_file, offer)
        puller = None
        if options.content_dir:
            puller = PullerClient(options.content_dir, local_only=options.local_registries_only)
        run_kubelet(settings, options.kubeconfig, options.runtime_socket, files, puller)


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
