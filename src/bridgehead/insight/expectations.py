"""The Frontends that a node's kernel should have, from the objects of the API alone.

They are compiled as the node's service proxy compiles them: with the configuration in the ConfigMap `kube-proxy`, the
node's own addresses and ranges, and conflicts between Services decided in the same way. `rulesets` compares them with
the rules in the kernel.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bridgehead.network.listening_ports import Listener
from bridgehead.objects.address_holders import assigned_addresses, cluster_addresses, published_addresses
from bridgehead.objects.core import PROXY_NAME_LABEL, Pod, Service
from bridgehead.objects.endpoint_slices import HEADLESS_LABEL, EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import family_of
from bridgehead.proxy.config import DEFAULTS, KIND, ProxyConfig, parse_config
from bridgehead.proxy.errors import ConfigInvalid
from bridgehead.proxy.frontend_table import FrontendTable
from bridgehead.proxy.frontends import Frontend, NodeFacts, Problem
from bridgehead.proxy.host_port_frontends import compile_host_ports, has_host_ports, pod_key
from bridgehead.proxy.mode import Settings
from bridgehead.proxy.node_facts import plan_node
from bridgehead.proxy.reserved_addresses import plan_reserved
from bridgehead.proxy.service_frontends import compile_service

from .facts.cluster_state import ClusterState
from .facts.network_state import NetworkState
from .facts.system_object_names import SYSTEM, is_proxy_pod

_KUBE_PROXY = "kube-proxy"  # kubeadm's ConfigMap
_CONFIG_KEY = "config.conf"  # kubeadm's
_API_SERVICE = ObjectKey("default", "kubernetes")
_IGNORED = {PROXY_NAME_LABEL, HEADLESS_LABEL}
_FIRST_EPHEMERAL = 32768  # sockets at higher ports are of clients, mostly


@dataclass(frozen=True, kw_only=True)
class Expectations:
    """The Frontends that the proxy of a node should program.

    `table`: the Frontends of all Services, and of host ports where the proxy maps them. `problems`: what was left out
    of each Service, and why. `unread`: Services whose EndpointSlices were not read, so that the backends of their
    Frontends are unknown. `mode`: the mode in use, as the proxy publishes it, or that of the configuration.
    `is_bridgehead`: the proxy is this project's and runs; of another one, names and details of the rules differ.
    `config_problem`: why the configuration could not be used, and the defaults are assumed; "" otherwise.
    """

    node: str
    mode: str
    is_bridgehead: bool
    config: ProxyConfig
    facts: NodeFacts
    settings: Settings
    table: FrontendTable
    problems: Mapping[ObjectKey, tuple[Problem, ...]]
    unread: frozenset[ObjectKey] = frozenset()
    config_problem: str = ""

    def frontends_of(self, key: ObjectKey) -> tuple[Frontend, ...]:
        """Return the Frontends that a Service has, without those that it lost to another one."""
        compiled = self.table.compiled(key)
        claimed = compiled.frontends if compiled is not None else ()
        held = (self.table.get(frontend.key) for frontend in claimed)
        return tuple(one for one in held if one is not None and service_of(one.owner) == key)


def service_of(owner: str) -> ObjectKey:
    """Return the Service of a Frontend's owner `namespace/name:port`; for a host port, its pod as `pod_key` has it."""
    namespace, _, rest = owner.partition("/")
    return ObjectKey(namespace, rest.rpartition(":")[0])


def expect_node(state: ClusterState, node: str, network: NetworkState | None = None, *, mode: str = "") -> Expectations:
    """Return what the proxy of a node should program.

    `network`: the state of the node's network namespace, for the ports on which the node itself listens and for its
    routers; needed only if Services list addresses of nodes or routers. `mode`: the mode to assume; "": the one in use.
    """
    progress = state.progress.get(node)
    in_use = mode or (progress.mode.name if progress is not None else "")
    config, problem = _read_config(state, node, mode or (progress.mode.wanted if progress is not None else ""))
    in_use = in_use or config.mode
    if in_use != "iptables":
        config = replace(config, localhost_node_ports=False)
    facts, settings = plan_node(config, node, state.nodes.get(node), state.service_cidrs)
    reserved = plan_reserved(
        node,
        facts.addresses,
        state.nodes.values(),
        state.slices_of(_API_SERVICE),
        (),
        settings.service_cidrs,
        config.cluster_cidrs,
        _listeners(network),
        _gateways(network),
    )
    rivals = _Rivals(state.services.values(), settings)
    table = FrontendTable()
    compiled = {
        key: compile_service(service, _slices_of(state, key), facts, reserved, rivals.of(service))
        for key, service in state.services.items()
        if HEADLESS_LABEL not in service.metadata.labels
    }
    for pod in _pods_with_host_ports(state, node):
        compiled[pod_key(pod.key)] = compile_host_ports(pod, facts)
    problems = {key: list(each.problems) for key, each in compiled.items()}
    contested: set[ObjectKey] = set()
    for key, each in compiled.items():
        contested.update(table.update(key, each).conflicts)
    for key in contested:  # again, now that all claims are known
        problems[key] += table.update(key, compiled[key]).conflicts.get(key, ())
    return Expectations(
        node=node,
        mode=in_use,
        is_bridgehead=progress is not None and progress.expires > state.now,
        config=config,
        facts=facts,
        settings=settings,
        table=table,
        problems={key: tuple(found) for key, found in problems.items() if found},
        unread=frozenset(key for key in state.services if not state.has_read_slices(key)),
        config_problem=problem,
    )


def _read_config(state: ClusterState, node: str, mode: str) -> tuple[ProxyConfig, str]:
    """Return the configuration of a node's proxy, and why the defaults are assumed in its place.

    `mode` overrides its own. Without it and without a mode in the file, it is a kube-proxy's: iptables.
    """
    from bridgehead.yaml_loader import UnusableYaml, load

    document: object = None
    problem = ""
    key = _config_map_of(state, node)
    config_map = state.config_maps.get(key)
    text = config_map.data.get(_CONFIG_KEY, "") if config_map is not None else ""
    try:
        document = load(text) if text else None
        if isinstance(document, dict) and document.get("kind") == KIND:
            chosen = mode or str(document.get("mode") or "iptables")
            return parse_config(document, chosen), ""
        if text:
            problem = f"{_CONFIG_KEY} of ConfigMap {key} is no {KIND}"
    except (UnusableYaml, ConfigInvalid) as error:
        problem = f"{_CONFIG_KEY} of ConfigMap {key}: {error}"
    return parse_config(dict(DEFAULTS), mode or "iptables"), problem


def _config_map_of(state: ClusterState, node: str) -> ObjectKey:
    """Return the ConfigMap that the pod of a node's proxy mounts; kubeadm's if none is known."""
    mounted = (
        ObjectKey(SYSTEM, volume.config_map.name)
        for pod in state.pods.values()
        if pod.spec.node_name == node and is_proxy_pod(pod) and not pod.is_terminating
        for volume in pod.spec.volumes
        if volume.config_map is not None
    )
    return next((key for key in mounted if key in state.config_maps), ObjectKey(SYSTEM, _KUBE_PROXY))


def _slices_of(state: ClusterState, key: ObjectKey) -> list[EndpointSlice]:
    """Return the EndpointSlices that a proxy follows."""
    return [one for one in state.slices_of(key) if _IGNORED.isdisjoint(one.metadata.labels)]


def _pods_with_host_ports(state: ClusterState, node: str) -> Sequence[Pod]:
    """Return the node's pods whose host ports its proxy maps: () unless the proxy was started with --host-ports."""
    pods = [pod for pod in state.pods.values() if pod.spec.node_name == node]
    if not any(_maps_host_ports(pod) for pod in pods):
        return ()
    return [pod for pod in pods if has_host_ports(pod)]


def _maps_host_ports(pod: Pod) -> bool:
    if not is_proxy_pod(pod):
        return False
    options = [option for each in pod.spec.containers for option in (*each.command, *each.args)]
    return any(option in ("--host-ports", "--host-ports=true") for option in options)


def _listeners(network: NetworkState | None) -> list[Listener]:
    if network is None:
        return []
    return [Listener(one.protocol, one.address, one.port) for one in network.listeners if one.port < _FIRST_EPHEMERAL]


def _gateways(network: NetworkState | None) -> list[str]:
    if network is None:
        return []
    return [route.via for route in network.routes if route.via and route.destination in _DEFAULT_ROUTES]


_DEFAULT_ROUTES = ("default", "0.0.0.0/0", "::/0")


class _Rivals:
    """Services by the addresses of their status and their cluster IPs, as the proxy looks them up."""

    def __init__(self, services: Iterable[Service], settings: Settings) -> None:
        self._assigned: dict[str, list[Service]] = {}
        self._cluster: dict[str, list[Service]] = {}
        self._known = {family_of(cidr) for cidr in settings.service_cidrs}
        for service in services:
            for address in assigned_addresses(service):
                self._assigned.setdefault(address, []).append(service)
            for address in cluster_addresses(service):
                self._cluster.setdefault(address, []).append(service)

    def of(self, service: Service) -> list[Service]:
        """Return the other Services that have one of the Service's published addresses."""
        found: dict[ObjectKey, Service] = {}
        for address in published_addresses(service):
            found.update((other.key, other) for other in self._assigned.get(address, ()))
            if family_of(address) not in self._known:  # otherwise, all addresses of the ranges are reserved
                found.update((other.key, other) for other in self._cluster.get(address, ()))
        found.pop(service.key, None)
        return list(found.values())
