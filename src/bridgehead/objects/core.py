"""The core/v1 kinds, with the fields that Bridgehead uses.

Pure: no I/O, no clock, no randomness. Source: Kubernetes API reference v1.36.
"""

from __future__ import annotations

from typing import Any

from .meta import Condition, Object, ObjectReference, Part, is_condition_true


def ip_family(ip: str) -> str:
    """Return `IPv4` or `IPv6`, as in a Service's `ipFamilies` and an EndpointSlice's `addressType`."""
    return "IPv6" if ":" in ip else "IPv4"


# --- Service ---------------------------------------------------------------------------------------------


class ServicePort(Part, frozen=True, kw_only=True):
    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0
    node_port: int = 0
    app_protocol: str | None = None


class ClientIPConfig(Part, frozen=True, kw_only=True):
    timeout_seconds: int = 10800


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


# --- Endpoints -------------------------------------------------------------------------------------------


class EndpointAddress(Part, frozen=True, kw_only=True):
    ip: str
    hostname: str = ""
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointPort(Part, frozen=True, kw_only=True):
    port: int
    name: str = ""
    protocol: str = "TCP"
    app_protocol: str | None = None


class EndpointSubset(Part, frozen=True, kw_only=True):
    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class Endpoints(Object, frozen=True, kw_only=True):
    subsets: tuple[EndpointSubset, ...] = ()


# --- Pod -------------------------------------------------------------------------------------------------


class ContainerPort(Part, frozen=True, kw_only=True):
    container_port: int
    name: str = ""
    protocol: str = "TCP"
    host_port: int = 0
    host_ip: str = ""


class ObjectFieldSelector(Part, frozen=True, kw_only=True):
    field_path: str
    api_version: str = "v1"


class ResourceFieldSelector(Part, frozen=True, kw_only=True):
    resource: str
    container_name: str = ""
    divisor: str | int = ""


class KeySelector(Part, frozen=True, kw_only=True):
    """Reference to one key of a ConfigMap or a Secret."""

    key: str
    name: str = ""
    optional: bool = False


class FileKeySelector(Part, frozen=True, kw_only=True):
    """Reference to one variable of an env file in a volume of the pod."""

    volume_name: str
    path: str
    key: str
    optional: bool = False


class EnvVarSource(Part, frozen=True, kw_only=True):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(Part, frozen=True, kw_only=True):
    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


class SourceReference(Part, frozen=True, kw_only=True):
    name: str = ""
    optional: bool = False


class EnvFromSource(Part, frozen=True, kw_only=True):
    prefix: str = ""
    config_map_ref: SourceReference | None = None
    secret_ref: SourceReference | None = None


class VolumeMount(Part, frozen=True, kw_only=True):
    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False
    recursive_read_only: str = "Disabled"


class ExecAction(Part, frozen=True, kw_only=True):
    command: tuple[str, ...] = ()


class HTTPHeader(Part, frozen=True, kw_only=True):
    name: str
    value: str = ""


class HTTPGetAction(Part, frozen=True, kw_only=True):
    port: int | str
    path: str = ""
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Part, frozen=True, kw_only=True):
    port: int | str
    host: str = ""


class GRPCAction(Part, frozen=True, kw_only=True):
    port: int
    service: str = ""


class SleepAction(Part, frozen=True, kw_only=True):
    seconds: int = 0


class Action(Part, frozen=True, kw_only=True):
    """Action of a probe or a lifecycle hook. Exactly one field is set."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None


class LifecycleHandler(Action, frozen=True, kw_only=True):
    sleep: SleepAction | None = None


class Lifecycle(Part, frozen=True, kw_only=True):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str = ""


class Probe(Action, frozen=True, kw_only=True):
    grpc: GRPCAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class ResourceRequirements(Part, frozen=True, kw_only=True):
    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}


class ContainerRestartRuleOnExitCodes(Part, frozen=True, kw_only=True):
    operator: str = ""
    values: tuple[int, ...] = ()


class ContainerRestartRule(Part, frozen=True, kw_only=True):
    """The action after certain exits of a container, in place of its `restartPolicy`."""

    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None

    def matches(self, exit_code: int) -> bool:
        if self.exit_codes is None:
            return False
        return (exit_code in self.exit_codes.values) == (self.exit_codes.operator == "In")


class ContainerResizePolicy(Part, frozen=True, kw_only=True):
    resource_name: str = ""
    restart_policy: str = "NotRequired"


class Capabilities(Part, frozen=True, kw_only=True):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SeccompProfile(Part, frozen=True, kw_only=True):
    type: str = ""
    localhost_profile: str = ""


class AppArmorProfile(Part, frozen=True, kw_only=True):
    type: str = ""
    localhost_profile: str = ""


class SELinuxOptions(Part, frozen=True, kw_only=True):
    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class Sysctl(Part, frozen=True, kw_only=True):
    name: str
    value: str = ""


class SecurityContext(Part, frozen=True, kw_only=True):
    """Security context of a container. A field that is None takes the pod's value if the pod has that field."""

    privileged: bool = False
    allow_privilege_escalation: bool | None = None
    capabilities: Capabilities | None = None
    read_only_root_filesystem: bool = False
    proc_mount: str = "Default"
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_options: SELinuxOptions | None = None


class PodSecurityContext(Part, frozen=True, kw_only=True):
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str = "Merge"
    fs_group: int | None = None
    fs_group_change_policy: str = "Always"
    sysctls: tuple[Sysctl, ...] = ()
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_options: SELinuxOptions | None = None


class Container(Part, frozen=True, kw_only=True):
    name: str
    image: str = ""
    image_pull_policy: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False

    @property
    def is_sidecar(self) -> bool:
        """Whether it is an init container that runs as long as the pod."""
        return self.restart_policy == "Always"


class EphemeralContainer(Container, frozen=True, kw_only=True):
    target_container_name: str = ""


class KeyToPath(Part, frozen=True, kw_only=True):
    key: str
    path: str
    mode: int | None = None


class ConfigMapVolume(Part, frozen=True, kw_only=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class SecretVolume(Part, frozen=True, kw_only=True):
    secret_name: str = ""
    name: str = ""  # in projected sources; volumes have `secretName`
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class EmptyDirVolume(Part, frozen=True, kw_only=True):
    medium: str = ""
    size_limit: str | int | None = None


class HostPathVolume(Part, frozen=True, kw_only=True):
    path: str
    type: str = ""


class DownwardAPIFile(Part, frozen=True, kw_only=True):
    path: str
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardAPIVolume(Part, frozen=True, kw_only=True):
    items: tuple[DownwardAPIFile, ...] = ()
    default_mode: int | None = None


class ServiceAccountTokenProjection(Part, frozen=True, kw_only=True):
    path: str
    audience: str = ""
    expiration_seconds: int = 3600


class VolumeProjection(Part, frozen=True, kw_only=True):
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    downward_api: DownwardAPIVolume | None = None
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolume(Part, frozen=True, kw_only=True):
    sources: tuple[VolumeProjection, ...] = ()
    default_mode: int | None = None


class ClaimVolume(Part, frozen=True, kw_only=True):
    claim_name: str
    read_only: bool = False


class EphemeralVolume(Part, frozen=True, kw_only=True):
    """A volume whose claim is made for the pod and belongs to it. `volume_claim_template` has metadata and spec."""

    volume_claim_template: dict[str, Any] = {}


class ImageVolume(Part, frozen=True, kw_only=True):
    """The files of an image, read-only."""

    reference: str = ""
    pull_policy: str = ""


class CSIVolume(Part, frozen=True, kw_only=True):
    driver: str = ""


class Volume(Part, frozen=True, kw_only=True):
    name: str
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    empty_dir: EmptyDirVolume | None = None
    host_path: HostPathVolume | None = None
    downward_api: DownwardAPIVolume | None = None
    projected: ProjectedVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    image: ImageVolume | None = None
    csi: CSIVolume | None = None

    def claim_name(self, pod_name: str) -> str:
        """The name of the volume's claim in a pod of that name, "" for a volume without a claim."""
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.claim_name
        return f"{pod_name}-{self.name}" if self.ephemeral is not None else ""


class PodDNSConfigOption(Part, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = None


class PodDNSConfig(Part, frozen=True, kw_only=True):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()


class HostAlias(Part, frozen=True, kw_only=True):
    ip: str
    hostnames: tuple[str, ...] = ()


class Toleration(Part, frozen=True, kw_only=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodReadinessGate(Part, frozen=True, kw_only=True):
    condition_type: str


class LocalObjectReference(Part, frozen=True, kw_only=True):
    """A reference to an object in the same namespace."""

    name: str = ""


class PodOS(Part, frozen=True, kw_only=True):
    name: str = ""


class PodSpec(Part, frozen=True, kw_only=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    volumes: tuple[Volume, ...] = ()
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: dict[str, Any] | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[dict[str, str], ...] = ()
    restart_policy: str = "Always"
    os: PodOS | None = None
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    dns_policy: str = "ClusterFirst"
    dns_config: PodDNSConfig | None = None
    host_aliases: tuple[HostAlias, ...] = ()
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    host_users: bool = True
    share_process_namespace: bool = False
    hostname: str = ""
    subdomain: str = ""
    set_hostname_as_fqdn: bool = False
    hostname_override: str = ""
    enable_service_links: bool = True
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    security_context: PodSecurityContext | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str = ""
    runtime_class_name: str | None = None
    overhead: dict[str, str | int | float] = {}
    resources: ResourceRequirements | None = None  # of the whole pod


class RuntimeClass(Object, frozen=True, kw_only=True):
    """A class of container runtimes (node.k8s.io/v1). `handler` is its name in the configuration of nodes."""

    handler: str = ""


class ContainerStateWaiting(Part, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Part, frozen=True, kw_only=True):
    started_at: str | None = None


class ContainerStateTerminated(Part, frozen=True, kw_only=True):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = ""


class ContainerState(Part, frozen=True, kw_only=True):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class VolumeMountStatus(Part, frozen=True, kw_only=True):
    name: str
    mount_path: str
    read_only: bool = False
    recursive_read_only: str | None = None


class LinuxContainerUser(Part, frozen=True, kw_only=True, omit_defaults=False):
    uid: int
    gid: int
    supplemental_groups: tuple[int, ...] = ()


class ContainerUser(Part, frozen=True, kw_only=True):
    linux: LinuxContainerUser | None = None


class ContainerStatus(Part, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int | float] | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] | None = None
    user: ContainerUser | None = None


class PodIP(Part, frozen=True, kw_only=True):
    ip: str = ""


class PodStatus(Part, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    reason: str = ""
    message: str = ""
    host_ip: str = ""
    host_ips: tuple[PodIP, ...] = ()
    pod_ip: str = ""
    pod_ips: tuple[PodIP, ...] = ()
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    observed_generation: int | None = None
    qos_class: str = ""
    nominated_node_name: str = ""
    resources: ResourceRequirements | None = None  # of the whole pod
    allocated_resources: dict[str, str | int | float] | None = None


class Pod(Object, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Whether the pod's Ready condition is True."""
        return is_condition_true(self.status.conditions, "Ready")

    @property
    def is_terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        """Whether all containers have ended and none will be started again."""
        return self.status.phase in ("Succeeded", "Failed")


# --- Node ------------------------------------------------------------------------------------------------


class Taint(Part, frozen=True, kw_only=True):
    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeSpec(Part, frozen=True, kw_only=True):
    pod_cidr: str = ""
    pod_cidrs: tuple[str, ...] = ()
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = ""


class NodeAddress(Part, frozen=True, kw_only=True):
    type: str
    address: str


class ContainerImage(Part, frozen=True, kw_only=True):
    """An image that a node has."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Part, frozen=True, kw_only=True):
    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[Condition, ...] = ()
    capacity: dict[str, str | int | float] = {}
    allocatable: dict[str, str | int | float] = {}
    node_info: dict[str, Any] = {}
    daemon_endpoints: dict[str, Any] = {}
    images: tuple[ContainerImage, ...] = ()


ZONE_LABEL = "topology.kubernetes.io/zone"


class Node(Object, frozen=True, kw_only=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def zone(self) -> str:
        """The zone in the node's label; "" without one."""
        return self.metadata.labels.get(ZONE_LABEL, "")

    @property
    def is_ready(self) -> bool:
        return is_condition_true(self.status.conditions, "Ready")

    @property
    def internal_ips(self) -> tuple[str, ...]:
        return tuple(a.address for a in self.status.addresses if a.type == "InternalIP")


# --- Namespaces, configuration, events -------------------------------------------------------------------


class NamespaceSpec(Part, frozen=True, kw_only=True):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Part, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(Object, frozen=True, kw_only=True):
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(Object, frozen=True, kw_only=True):
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool = False


class Secret(Object, frozen=True, kw_only=True):
    data: dict[str, str] = {}
    type: str = "Opaque"
    immutable: bool = False


class ServiceAccount(Object, frozen=True, kw_only=True):
    secrets: tuple[ObjectReference, ...] = ()
    automount_service_account_token: bool | None = None


class EventSource(Part, frozen=True, kw_only=True):
    component: str = ""
    host: str = ""


class Event(Object, frozen=True, kw_only=True):
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    count: int = 0
    reporting_component: str = ""
    reporting_instance: str = ""
    action: str = ""
