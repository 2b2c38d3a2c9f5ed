"""Services: their ports, affinity, policies and load-balancer addresses.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.objects.meta import Condition, Object, Part

DEFAULT_AFFINITY_SECONDS = 3 * 60 * 60


class ServicePort(Part, frozen=True, kw_only=True):
    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0
    node_port: int = 0
    app_protocol: str | None = None


class ClientIPConfig(Part, frozen=True, kw_only=True):
    timeout_seconds: int = DEFAULT_AFFINITY_SECONDS


class SessionAffinityConfig(Part, frozen=True, kw_only=True):
    client_ip: ClientIPConfig | None = None


class ServiceSpec(Part, frozen=True, kw_only=True):
    type: str = "ClusterIP"
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str = ""
    cluster_ips: tuple[str, ...] = ()
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str | None = None
    external_ips: tuple[str, ...] = ()
    external_name: str = ""
    session_affinity: str = "None"
    session_affinity_config: SessionAffinityConfig | None = None
    internal_traffic_policy: str = "Cluster"
    external_traffic_policy: str = ""
    health_check_node_port: int = 0
    publish_not_ready_addresses: bool = False
    load_balancer_ip: str = ""
    load_balancer_source_ranges: tuple[str, ...] = ()
    load_balancer_class: str | None = None
    allocate_load_balancer_node_ports: bool = True
    traffic_distribution: str | None = None


class PortStatus(Part, frozen=True, kw_only=True):
    port: int
    protocol: str = "TCP"
    error: str | None = None


class LoadBalancerIngress(Part, frozen=True, kw_only=True):
    ip: str = ""
    hostname: str = ""
    ip_mode: str | None = None
    ports: tuple[PortStatus, ...] = ()


class LoadBalancerStatus(Part, frozen=True, kw_only=True):
    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(Part, frozen=True, kw_only=True):
    load_balancer: LoadBalancerStatus = LoadBalancerStatus()
    conditions: tuple[Condition, ...] = ()


PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name"  # on a Service for which another proxy is responsible


class Service(Object, frozen=True, kw_only=True):
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()

    @property
    def is_proxied(self) -> bool:
        """Whether the service proxy programs the Service: one with a cluster IP that names no other proxy."""
        address = self.spec.cluster_ips[0] if self.spec.cluster_ips else self.spec.cluster_ip
        return (
            address not in ("", "None")
            and self.spec.type != "ExternalName"
            and PROXY_NAME_LABEL not in self.metadata.labels
        )
