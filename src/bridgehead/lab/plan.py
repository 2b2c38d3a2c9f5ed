"""Plan of a lab: names, addresses, files and parts.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from bridgehead.objects.addresses import join_host_port

from .addressing import API_PORT, MAX_API_SERVERS, MAX_NODES, RANGES, IpFamily, Ranges

CLUSTER_DOMAIN = "cluster.local"
NODE_PORTS = "30000-32767"
# Ports of etcd and of the pages of parts, as kubeadm has them.
_ETCD_CLIENT_PORT = 2379
_ETCD_PEER_PORT = 2380
_ETCD_METRICS_PORT = 2381
_CONTROLLERS_PORT = 10257

StoreKind = Literal["sqlite", "etcd"]


class LabConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a lab. The state directory keeps it, so that the next `up` gives the same cluster."""

    name: str
    nodes: Annotated[int, msgspec.Meta(ge=1, le=MAX_NODES)]
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]  # port of the API server on the host's loopback
    ephemeral: bool = False
    ip_family: IpFamily = "ipv4"  # of labs that were made before there was a choice
    node_dns: bool = False  # a DNS server on each node, beside the Deployment
    balancer: bool = True  # addresses for Services of type LoadBalancer
    host_access: bool = False  # pods may reach the machine's files
    host_routes: bool = False  # the machine has routes to the lab
    outside: bool = False  # pods may reach what is outside of the machine
    offline: bool = True  # asks only registries on this machine; so do labs that were made before there was a choice
    has_hosts: bool = False  # the user has configured servers of registries
    store: StoreKind = "sqlite"
    api_servers: Annotated[int, msgspec.Meta(ge=1, le=MAX_API_SERVERS)] = 1  # on etcd, each with a member of it
    publish: tuple[str, ...] = ()  # ports of the machine that lead to Services (see `forwarding.published`)
    chosen_ranges: tuple[Ranges, ...] = ()  # by family, the primary one first; () in labs from before the choice
    id_base: int | None = None  # the machine's id of the lab's root, if the lab has a range of ids

    @property
    def ranges(self) -> tuple[Ranges, ...]:
        """The lab's addresses by family, the primary one first."""
        return self.chosen_ranges or RANGES[self.ip_family]

    @property
    def context(self) -> str:
        """Name of the lab's context in a kubeconfig."""
        return f"bridgehead-{self.name}"


class PartStatus(msgspec.Struct, kw_only=True):
    """Status of one part, for `bridgehead status`. Times are seconds since the epoch."""

    name: str
    pid: int = 0  # 0: waiting for a restart
    restarts: int = 0
    started_at: float = 0.0
    last_exit: str = ""


class RunningLab(msgspec.Struct, frozen=True, kw_only=True):
    """Record of a running lab. `init_pid` is the PID of its first process in the PID namespace of `up`, whose inode
    is `pid_namespace`."""

    config: LabConfig
    init_pid: int
    started_at: float
    pid_namespace: int = 0  # 0: unknown
    cgroup: str = ""  # cgroup of the lab's containers; "" without limits


@dataclass(frozen=True)
class NodePlan:
    """One node; `number` counts from 1 and determines its addresses. The primary one of `ranges` is the first."""

    number: int
    ranges: tuple[Ranges, ...]

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @functools.cached_property
    def addresses(self) -> tuple[str, ...]:
        """One address, or range, of each family."""
        return tuple(ranges.node(self.number) for ranges in self.ranges)

    @functools.cached_property
    def pod_ranges(self) -> tuple[str, ...]:
        """One address, or range, of each family."""
        return tuple(ranges.node_pods(self.number) for ranges in self.ranges)

    @property
    def netns(self) -> str:
        """Path of the network namespace inside the lab, where `ip netns` expects it."""
        return f"/run/netns/{self.name}"

    @property
    def utsns(self) -> str:
        return f"/run/bridgehead/uts/{self.name}"

    @property
    def runtime_part(self) -> str:
        """Name of the part that is the node's container runtime."""
        return f"runtime-{self.name}"

    @property
    def runtime_socket(self) -> str:
        return f"/run/bridgehead/{self.name}/runtime.sock"

    @property
    def runtime_root(self) -> str:
        return f"/run/bridgehead/{self.name}"

    @property
    def resolv_conf(self) -> str:
        """File with the name servers of pods with `dnsPolicy: Default`, if names outside of the lab are resolved."""
        return f"{self.runtime_root}/resolv.conf"


def plan_nodes(config: LabConfig) -> list[NodePlan]:
    return [NodePlan(number, config.ranges) for number in range(1, config.nodes + 1)]


@dataclass(frozen=True)
class ServerPlan:
    """One API server, with the controllers and the member of etcd beside it; `number` counts from 1 and determines its
    addresses. All are processes in the lab's own network namespace."""

    number: int
    ranges: tuple[Ranges, ...]

    @property
    def addresses(self) -> tuple[str, ...]:
        """One address of each family."""
        return tuple(ranges.api_server(self.number) for ranges in self.ranges)

    @property
    def loopback(self) -> str:
        """The address for pages that only the lab itself reads."""
        return f"127.0.0.{self.number}"

    def part(self, name: str) -> str:
        """Return the name of its part of that kind."""
        return name if self.number == 1 else f"{name}-{self.number}"

    @property
    def etcd_health(self) -> tuple[str, int]:
        """Address and port of its member's page /health, inside the lab."""
        return self.loopback, _ETCD_METRICS_PORT

    @property
    def etcd_url(self) -> str:
        """URL of its member of etcd, for clients."""
        return f"https://{join_host_port(self.addresses[0], _ETCD_CLIENT_PORT)}"

    @property
    def etcd_peer_url(self) -> str:
        """URL of its member of etcd, for the other members."""
        return f"https://{join_host_port(self.addresses[0], _ETCD_PEER_PORT)}"


def plan_servers(config: LabConfig) -> list[ServerPlan]:
    return [ServerPlan(number, config.ranges) for number in range(1, config.api_servers + 1)]


class EtcdAccess(NamedTuple):
    """Files of a client of etcd: the CA of its members, a certificate and its key."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class LabFiles:
    """Paths of the files of one lab, all below its state directory."""

    root: Path

    @property
    def lock(self) -> Path:
        """Lock file. The lab's first process holds its lock while it lives."""
        return self.root / "lock"

    @property
    def gateway_lock(self) -> Path:
        """Lock file that the lab's gateway holds while it runs."""
        return self.root / "gateway.lock"

    @property
    def config(self) -> Path:
        return self.root / "lab.json"

    @property
    def running(self) -> Path:
        return self.root / "running.json"

    @property
    def parts(self) -> Path:
        """Status of the parts, written by the lab's first process."""
        return self.root / "run" / "parts.json"

    @property
    def store(self) -> Path:
        return self.root / "store" / "cluster.db"

    @property
    def etcd_access(self) -> EtcdAccess:
        return EtcdAccess(
            self.pki / "etcd-ca.crt",
            self.pki / "apiserver-etcd-client.crt",
            self.pki / "apiserver-etcd-client.key",
        )

    def etcd_data(self, member: str) -> Path:
        """Data directory of a member of etcd."""
        return self.store.parent / member

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the user, for the host's loopback."""
        return self.root / "kubeconfig"

    @property
    def inside_kubeconfig(self) -> Path:
        """Kubeconfig of the user for commands inside the lab, which cannot reach the host's loopback."""
        return self.root / "kubeconfig.inside"

    @property
    def images(self) -> Path:
        """Local image store: one root file system in each directory."""
        return self.root / "images"

    @property
    def content(self) -> Path:
        """Content store of pulled images. The process beside the lab writes to it, the lab reads."""
        return self.root / "content"

    @property
    def registries(self) -> Path:
        """The user's configuration of registries: REGISTRY/hosts.toml."""
        return self.root / "registries"

    def part_kubeconfig(self, part: str) -> Path:
        return self.pki / f"{part}.kubeconfig"

    @property
    def written_inside(self) -> tuple[Path, ...]:
        """Directories that the lab's ids write to. All other files are written by the commands outside; the lab only
        reads them."""
        return (
            self.content,
            self.store.parent,
            self.parts.parent,
            self.log("init").parent,
            self.root / "nodes",
            self.root / "roots",
        )

    @property
    def read_inside(self) -> tuple[str, ...]:
        """Patterns (`Path.glob`) of the files in `pki` that the lab's parts read: without the CA's and the
        administrator's keys."""
        return (
            "ca.crt",
            "client-ca.crt",
            "signer-ca*",
            "front-proxy-ca.crt",
            "front-proxy-client*",
            "etcd-ca.crt",
            "etcd-server*",
            "etcd-peer*",
            "sa.key",
            "apiserver*",
            "controllers*",
            "node*",
            "forwarder*",
        )

    def log(self, part: str) -> Path:
        return self.root / "logs" / f"{part}.log"

    def node(self, node: NodePlan) -> Path:
        """Directory of the node's kubelet."""
        return self.root / "nodes" / node.name

    def manifests(self, node: NodePlan) -> Path:
        """Directory of the manifests of the node's static pods."""
        return self.node(node) / "manifests"

    def node_root(self, node: NodePlan) -> Path:
        """Root file system of the node, outside of the directory that it shows, where a pod could put a link."""
        return self.root / "roots" / node.name


_ZYGOTE = 3  # a fixed number, so that the first process can parse the command line for its forks


@dataclass(frozen=True)
class PartPlan:
    """One process of the lab: `bridgehead *argv`, in the namespaces of `node` if it has one.

    `is_program`: the program `argv` instead. `starts_first`: others wait for it. The process inherits `descriptors`
    beside its standard streams. `zygote`: a container runtime, for which the lab's first process forks the zygote,
    while its memory is small; the descriptor of the socket to it (--zygote-fd).
    """

    name: str
    argv: tuple[str, ...]
    node: NodePlan | None = None
    descriptors: tuple[int, ...] = ()
    zygote: int | None = None
    is_program: bool = False
    starts_first: bool = False


def plan_parts(
    config: LabConfig, files: LabFiles, *, listen_fd: int, lack_of_cgroup: str = "", published_fds: Sequence[int] = ()
) -> list[PartPlan]:
    """Return the processes that the lab's first process keeps running, in the order in which they start.

    `published_fds` are the sockets of the published ports, in the order of the configuration. `lack_of_cgroup` is the
    reason why the lab has no cgroup for its containers, "" when it has one.
    """
    servers = plan_servers(config)
    parts = []
    if config.store == "etcd":
        parts += [plan_etcd(config, files, server, files.etcd_data(server.part("etcd"))) for server in servers]
    parts += [_api_server(config, files, server, listen_fd) for server in servers]
    parts += [_controllers(config, files, server) for server in servers]
    for node in plan_nodes(config):
        parts += [_runtime(files, node, lack_of_cgroup), _kubelet(config, files, node)]
    if published_fds:
        parts.append(_forwarder(config, files, published_fds))
    return parts


def plan_container_lines(config: LabConfig) -> list[tuple[str, ...]]:
    """Return the command lines of the parts in the system's pods, which the runtimes fork. Another line works, too, but
    is parsed in the container: that copies a MiB of the memory that it shares.

    They are those of `manifests/`, with the nodes' names. Options are left out, as they are known only when the pod
    starts.
    """
    nodes = [f"--node-name={node.name}" for node in plan_nodes(config)]
    lines = [("proxy", "--config=/var/lib/kube-proxy/config.conf", node, "--host-ports") for node in nodes]
    balancer = [("balancer",), *(("speaker", node, "--probe-port=17479") for node in nodes)] if config.balancer else []
    return [*lines, ("dns", "--config=/etc/coredns/Corefile"), *balancer]


def plan_container_capabilities(config: LabConfig) -> list[frozenset[str]]:
    """Return the sets of capabilities, besides the default, of containers in `manifests/` that every node runs. For
    each of them, a runtime needs another filter of system calls."""
    return [frozenset({"NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW"})] if config.balancer else []


def _forwarder(config: LabConfig, files: LabFiles, descriptors: Sequence[int]) -> PartPlan:
    return PartPlan(
        "forwarder",
        (
            "forwarder",
            f"--kubeconfig={files.part_kubeconfig('forwarder')}",
            *(f"--publish={text}" for text in config.publish),
            f"--listen-fds={','.join(map(str, descriptors))}",
        ),
        descriptors=tuple(descriptors),
    )


def plan_etcd(config: LabConfig, files: LabFiles, server: ServerPlan, data: Path) -> PartPlan:
    """Return a server's member of etcd with its data in the directory `data`, and with the flags that kubeadm gives
    it."""
    pki, name = files.pki, server.part("etcd")
    members = (f"{other.part('etcd')}={other.etcd_peer_url}" for other in plan_servers(config))
    return PartPlan(
        name,
        (
            "etcd",
            f"--name={name}",
            f"--data-dir={data}",
            f"--listen-client-urls={server.etcd_url}",
            f"--advertise-client-urls={server.etcd_url}",
            f"--listen-peer-urls={server.etcd_peer_url}",
            f"--initial-advertise-peer-urls={server.etcd_peer_url}",
            f"--listen-metrics-urls=http://{server.loopback}:{_ETCD_METRICS_PORT}",
            f"--initial-cluster={','.join(members)}",
            f"--initial-cluster-token={config.context}",
            f"--cert-file={pki / 'etcd-server.crt'}",
            f"--key-file={pki / 'etcd-server.key'}",
            f"--trusted-ca-file={pki / 'etcd-ca.crt'}",
            "--client-cert-auth=true",
            f"--peer-cert-file={pki / 'etcd-peer.crt'}",
            f"--peer-key-file={pki / 'etcd-peer.key'}",
            f"--peer-trusted-ca-file={pki / 'etcd-ca.crt'}",
            "--peer-client-cert-auth=true",
            "--pre-vote=true",  # the default since 3.5: a member that comes back forces no election
            "--snapshot-count=10000",  # 3.4 keeps ten times as many entries in memory by default
            "--logger=zap",  # the only one since 3.5
            "--log-level=warn",
            "--log-outputs=stderr",
        ),
        is_program=True,
        starts_first=True,
    )


def _store(config: LabConfig, files: LabFiles, server: ServerPlan) -> list[str]:
    """Return the options for the store. A server's own member of etcd is the first one that it asks."""
    if config.store == "sqlite":
        return [f"--store=sqlite://{files.store}"]
    servers = plan_servers(config)
    nearest = sorted(servers, key=lambda other: other != server)
    access = files.etcd_access
    return [
        f"--etcd-servers={','.join(other.etcd_url for other in nearest)}",
        f"--etcd-cafile={access.authority}",
        f"--etcd-certfile={access.certificate}",
        f"--etcd-keyfile={access.key}",
    ]


def _api_server(config: LabConfig, files: LabFiles, server: ServerPlan, listen_fd: int) -> PartPlan:
    """Return an API server. All listen on the same socket `listen_fd`: the kernel gives a connection to one that
    lives."""
    pki, ranges = files.pki, config.ranges
    return PartPlan(
        server.part("apiserver"),
        (
            "apiserver",
            f"--listen-fd={listen_fd}",
            *(f"--listen={join_host_port(address, API_PORT)}" for address in server.addresses),
            f"--advertise-address={join_host_port(server.addresses[0], API_PORT)}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--client-ca-file={pki / 'client-ca.crt'}",
            f"--service-account-key-file={pki / 'sa.key'}",
            f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
            f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
            f"--kubelet-certificate-authority={pki / 'client-ca.crt'}",
            f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
            f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
            f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            *_store(config, files, server),
            f"--service-cluster-ip-range={','.join(family.services for family in ranges)}",
            f"--service-node-port-range={NODE_PORTS}",
        ),
        descriptors=(listen_fd,),
        starts_first=True,
    )


def _controllers(config: LabConfig, files: LabFiles, server: ServerPlan) -> PartPlan:
    return PartPlan(
        server.part("controllers"),
        (
            "controllers",
            f"--kubeconfig={files.part_kubeconfig('controllers')}",
            f"--root-ca-file={files.pki / 'ca.crt'}",
            f"--service-account-private-key-file={files.pki / 'sa.key'}",
            f"--cluster-signing-cert-file={files.pki / 'signer-ca.crt'}",
            f"--cluster-signing-key-file={files.pki / 'signer-ca.key'}",
            *(["--no-leader-elect"] if config.api_servers == 1 else []),
            f"--metrics={server.loopback}:{_CONTROLLERS_PORT}",
        ),
    )


def _runtime(files: LabFiles, node: NodePlan, lack_of_cgroup: str) -> PartPlan:
    return PartPlan(
        node.runtime_part,
        (
            "runtime",
            f"--socket={node.runtime_socket}",
            f"--root={node.runtime_root}",
            f"--image-dir={files.images}",
            f"--content-dir={files.content}",
            *([f"--lack-of-cgroup={lack_of_cgroup}"] if lack_of_cgroup else []),
            f"--zygote-fd={_ZYGOTE}",
        ),
        node,
        zygote=_ZYGOTE,
    )


def _kubelet(config: LabConfig, files: LabFiles, node: NodePlan) -> PartPlan:
    return PartPlan(
        f"kubelet-{node.name}",
        (
            "kubelet",
            f"--node-name={node.name}",
            f"--node-ip={','.join(node.addresses)}",
            f"--pod-cidr={','.join(node.pod_ranges)}",
            f"--kubeconfig={files.part_kubeconfig(node.name)}",
            f"--runtime-socket={node.runtime_socket}",
            f"--root-dir={files.node(node)}",
            f"--pod-manifest-path={files.manifests(node)}",
            f"--content-dir={files.content}",
            *(["--local-registries-only"] if config.offline and not config.has_hosts else []),
            f"--cluster-dns={config.ranges[0].cluster_dns}",
            f"--cluster-domain={CLUSTER_DOMAIN}",
            # Without `outside`, the machine's name servers are unreachable from the lab. Its search domains are
            # meaningless there.
            f"--resolv-conf={node.resolv_conf if config.outside else ''}",
            f"--tls-cert-file={files.pki / f'{node.name}.crt'}",
            f"--tls-private-key-file={files.pki / f'{node.name}.key'}",
            f"--client-ca-file={files.pki / 'ca.crt'}",
        ),
        node,
    )
