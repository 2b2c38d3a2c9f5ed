"""What a lab consists of, before anything is made: names, addresses, files. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

FABRIC = ipaddress.IPv4Network("10.0.0.0/24")
LAB_ADDRESS = "10.0.0.1"
FIRST_NODE_ADDRESS = 201
MAX_NODES = 50
POD_RANGE = ipaddress.IPv4Network("10.244.0.0/16")
SERVICE_RANGE = "10.96.0.0/12"
KUBERNETES_SERVICE = "10.96.0.1"
CLUSTER_DNS = "10.96.0.10"
CLUSTER_DOMAIN = "cluster.local"
NODE_PORTS = "30000-32767"
API_PORT = 6443


class LabConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What `up` decided; kept in the state directory so that the next `up` gives the same cluster."""

    name: str
    nodes: Annotated[int, msgspec.Meta(ge=1, le=MAX_NODES)]
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]  # of the API on the host's loopback
    ephemeral: bool = False


class RunningLab(msgspec.Struct, frozen=True, kw_only=True):
    """Written while the lab runs. `init_pid` is the lab's first process as the host sees it."""

    config: LabConfig
    init_pid: int
    started_at: float


@dataclass(frozen=True)
class NodePlan:
    """One node: its number counts from 1 and decides its addresses."""

    number: int

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def address(self) -> str:
        return str(FABRIC.network_address + FIRST_NODE_ADDRESS - 1 + self.number)

    @property
    def pod_range(self) -> str:
        return f"{POD_RANGE.network_address + 256 * self.number}/24"

    @property
    def netns(self) -> str:
        """Where `ip netns` finds it, inside the lab."""
        return f"/run/netns/{self.name}"

    @property
    def utsns(self) -> str:
        return f"/run/bridgehead/uts/{self.name}"

    @property
    def runtime_socket(self) -> str:
        return f"/run/bridgehead/{self.name}/runtime.sock"

    @property
    def runtime_root(self) -> str:
        return f"/run/bridgehead/{self.name}"


def plan_nodes(count: int) -> list[NodePlan]:
    return [NodePlan(number) for number in range(1, count + 1)]


@dataclass(frozen=True)
class LabFiles:
    """The files of one lab, all below its state directory."""

    root: Path

    @property
    def lock(self) -> Path:
        """Locked by the lab's first process for as long as it lives."""
        return self.root / "lock"

    @property
    def config(self) -> Path:
        return self.root / "lab.json"

    @property
    def running(self) -> Path:
        return self.root / "running.json"

    @property
    def parts(self) -> Path:
        """How the parts are doing, as the lab's first process sees them."""
        return self.root / "parts.json"

    @property
    def store(self) -> Path:
        return self.root / "cluster.db"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The user's, for the host's loopback."""
        return self.root / "kubeconfig"

    @property
    def inside_kubeconfig(self) -> Path:
        """The user's, for commands that run in the lab, where the host's loopback is not."""
        return self.root / "kubeconfig.inside"

    @property
    def images(self) -> Path:
        """The local image store: a root file system in a directory per image."""
        return self.root / "images"

    def part_kubeconfig(self, part: str) -> Path:
        return self.pki / f"{part}.kubeconfig"

    def log(self, part: str) -> Path:
        return self.root / "logs" / f"{part}.log"

    def node(self, node: NodePlan) -> Path:
        return self.root / "nodes" / node.name


@dataclass(frozen=True)
class PartPlan:
    """One process of the lab: `bridgehead *argv`, in the namespace of `node` if it has one."""

    name: str
    argv: tuple[str, ...]
    node: NodePlan | None = None


def plan_parts(config: LabConfig, files: LabFiles, *, listen_fd: int) -> list[PartPlan]:
    """The processes that the lab's first process keeps running, in the order they start."""
    pki = files.pki
    parts = [
        PartPlan(
            "apiserver",
            (
                "apiserver",
                f"--listen-fd={listen_fd}",
                f"--listen={LAB_ADDRESS}:{API_PORT}",
                f"--advertise-address={LAB_ADDRESS}:{API_PORT}",
                f"--tls-cert-file={pki / 'apiserver.crt'}",
                f"--tls-private-key-file={pki / 'apiserver.key'}",
                f"--client-ca-file={pki / 'ca.crt'}",
                f"--service-account-key-file={pki / 'sa.key'}",
                f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
                f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
                f"--kubelet-certificate-authority={pki / 'ca.crt'}",
                f"--store=sqlite://{files.store}",
                f"--service-cluster-ip-range={SERVICE_RANGE}",
                f"--service-node-port-range={NODE_PORTS}",
            ),
        ),
        PartPlan(
            "controllers",
            (
                "controllers",
                f"--kubeconfig={files.part_kubeconfig('controllers')}",
                f"--root-ca-file={pki / 'ca.crt'}",
                "--no-leader-elect",
            ),
        ),
    ]
    for node in plan_nodes(config.nodes):
        parts.append(
            PartPlan(
                f"runtime-{node.name}",
                (
                    "runtime",
                    f"--socket={node.runtime_socket}",
                    f"--root={node.runtime_root}",
                    f"--image-dir={files.images}",
                ),
                node,
            )
        )
        parts.append(
            PartPlan(
                f"kubelet-{node.name}",
                (
                    "kubelet",
                    f"--node-name={node.name}",
                    f"--node-ip={node.address}",
                    f"--pod-cidr={node.pod_range}",
                    f"--kubeconfig={files.part_kubeconfig(node.name)}",
                    f"--runtime-socket={node.runtime_socket}",
                    f"--root-dir={files.node(node)}",
                    f"--cluster-dns={CLUSTER_DNS}",
                    f"--cluster-domain={CLUSTER_DOMAIN}",
                    f"--tls-cert-file={pki / f'{node.name}.crt'}",
                    f"--tls-private-key-file={pki / f'{node.name}.key'}",
                    f"--client-ca-file={pki / 'ca.crt'}",
                ),
                node,
            )
        )
    return parts
