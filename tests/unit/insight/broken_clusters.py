"""Clusters that one named change broke: `CASES`. Each is made from a cluster that works, `generated_clusters.base`.

A case has the cause that `bridgehead doctor` has to name first, and its subject.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from bridgehead.balancer.controller.service_patches import CONDITION
from bridgehead.insight.doctor.subjects import CertificateEnd, Target
from bridgehead.insight.facts.network_state import Listening
from bridgehead.objects.core import (
    PROXY_NAME_LABEL,
    ConfigMap,
    ContainerPort,
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    EndpointPort,
    HTTPGetAction,
    LoadBalancerIngress,
    LoadBalancerStatus,
    PodIP,
    PodReadinessGate,
    PodStatus,
    Probe,
    ServicePort,
    ServiceStatus,
)
from bridgehead.objects.core.pods import PodDNSConfig, PodDNSConfigOption
from bridgehead.objects.endpoint_slices import (
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointHints,
    EndpointSlice,
    ForZone,
    SlicePort,
)
from bridgehead.objects.meta import Condition, ObjectKey
from bridgehead.objects.progress import ModeInUse, Versions
from bridgehead.objects.times import format_time

from .generated_clusters import LONG_AGO, NOW, SYSTEM, World, base, deployment, endpoints, meta, pod, policy, service

WEB = ObjectKey("default", "web")
DB = ObjectKey("default", "db")
API = ObjectKey("shop", "api")


class Case(NamedTuple):
    name: str
    cause: str
    subject: str
    change: Callable[[World], None]

    def world(self) -> World:
        world = base()
        self.change(world)
        return world


CASES: list[Case] = []


def broken(
    cause: str, subject: str = "service/default/web"
) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    def register(change: Callable[[World], None]) -> Callable[[World], None]:
        CASES.append(Case(change.__name__, cause, subject, change))
        return change

    return register


# --- Names ---------------------------------------------------------------------------------------------------


@broken("ServiceInOtherNamespace", "service/default/api")
def asked_in_the_wrong_namespace(world: World) -> None:
    world.targets.append(Target(ObjectKey("default", "api")))


@broken("ServiceNameMisspelled", "service/default/wbe")
def asked_with_a_typing_error(world: World) -> None:
    world.targets.append(Target(ObjectKey("default", "wbe")))


@broken("ServiceNotFound", "service/default/invoices")
def asked_for_a_service_that_nobody_made(world: World) -> None:
    world.targets.append(Target(ObjectKey("default", "invoices")))


@broken("NamespaceNotFound", "service/shpo/api")
def asked_in_a_namespace_that_does_not_exist(world: World) -> None:
    world.targets.append(Target(ObjectKey("shpo", "api")))


@broken("PortNotInService", "service/shop/api")
def asked_for_the_target_port(world: World) -> None:
    world.targets.append(Target(API, 8080))


@broken("ServiceTerminating")
def deleted_with_a_finalizer(world: World) -> None:
    world.change_metadata(
        world.services, WEB, deletion_timestamp=LONG_AGO, finalizers=("service.kubernetes.io/load-balancer-cleanup",)
    )


@broken("ExternalNameToNothing", "service/default/alias")
def alias_of_a_missing_service(world: World) -> None:
    _alias(world, "mysql.data.svc.cluster.local")


@broken("ExternalNameIsAddress", "service/default/alias")
def alias_of_an_address(world: World) -> None:
    _alias(world, "10.0.0.7")


@broken("ExternalNameLoop", "service/default/alias")
def alias_of_itself(world: World) -> None:
    _alias(world, "alias.default.svc.cluster.local")


def _alias(world: World, name: str) -> None:
    world.add(service("alias", type="ExternalName", external_name=name, ip_families=()))


# --- Selectors -----------------------------------------------------------------------------------------------


@broken("SelectorMisspelled")
def selector_value_with_swapped_letters(world: World) -> None:
    world.change_service("web", selector={"app": "wbe"})


@broken("SelectorMisspelled")
def selector_value_in_capitals(world: World) -> None:
    world.change_service("web", selector={"app": "Web"})


@broken("SelectorMisspelled")
def selector_key_of_the_recommended_labels(world: World) -> None:
    world.change_service("web", selector={"app.kubernetes.io/name": "web"})


@broken("SelectorMisspelled", "service/shop/api")
def selector_value_with_a_letter_more(world: World) -> None:
    world.change_service("api", "shop", selector={"app": "api", "tier": "backends"})


@broken("SelectorMatchesNothing")
def selector_of_an_unknown_application(world: World) -> None:
    world.change_service("web", selector={"app": "invoices"})


@broken("LabelsNotOnTemplate")
def labels_of_the_deployment_only(world: World) -> None:
    world.change_service("web", selector={"team": "front"})
    world.workloads[-2]["metadata"]["labels"]["team"] = "front"


@broken("PodsInOtherNamespace", "service/default/orders")
def pods_in_another_namespace(world: World) -> None:
    selector = {"app": "api", "tier": "backend"}
    world.add(service("orders", ServicePort(port=80, target_port=8080), ip="10.96.0.61", selector=selector))


@broken("ScaledToZero")
def scaled_to_zero(world: World) -> None:
    _remove_pods(world, "web")
    world.workloads[-2]["spec"]["replicas"] = 0


@broken("WorkloadWithoutPods")
def quota_forbids_the_pods(world: World) -> None:
    _remove_pods(world, "web")
    message = 'pods "web-x" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=5, limited: pods=5'
    world.warn("ReplicaSet", ObjectKey("default", "web-5d9c7b8f6"), "FailedCreate", message)


@broken("NoSelectorNoEndpoints", "service/default/db")
def no_selector_and_no_endpoints(world: World) -> None:
    del world.endpoints[DB]


# --- Pods ----------------------------------------------------------------------------------------------------


@broken("ImagePullFailing")
def image_does_not_exist(world: World) -> None:
    _wait(world, "ImagePullBackOff", 'Back-off pulling image "nginx:1.99"')


@broken("ImagePullFailing", "service/shop/api")
def image_name_is_invalid(world: World) -> None:
    _wait(world, "InvalidImageName", "couldn't parse image name", "api", "shop")


@broken("ContainerCrashing")
def program_ends_at_once(world: World) -> None:
    _crash(world, ContainerStateTerminated(exit_code=1, reason="Error", message="cannot read /etc/web.conf"))


@broken("ContainerOutOfMemory")
def program_needs_more_memory(world: World) -> None:
    _crash(world, ContainerStateTerminated(exit_code=137, reason="OOMKilled"))


@broken("LivenessProbeFailing")
def liveness_probe_kills(world: World) -> None:
    _crash(world, ContainerStateTerminated(exit_code=137, reason="Error"))
    for key in world.pods_of("web"):
        world.warn("Pod", key, "Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 404")


@broken("ContainerConfigInvalid")
def config_map_is_missing(world: World) -> None:
    _wait(world, "CreateContainerConfigError", 'configmap "settings" not found')


@broken("ContainerNotStarting")
def command_does_not_exist(world: World) -> None:
    _wait(world, "CreateContainerError", 'exec: "serve": executable file not found in $PATH')


@broken("InitContainerNotDone")
def init_container_fails(world: World) -> None:
    _wait(world, "PodInitializing", "")
    failed = ContainerStateTerminated(exit_code=1, reason="Error", message="no database")
    for key in world.pods_of("web"):
        found = world.pods[key]
        status = msgspec.structs.replace(
            found.status.container_statuses[0],
            name="wait-for-db",
            state=ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff")),
            last_state=ContainerState(terminated=failed),
        )
        world.pods[key] = msgspec.structs.replace(
            found, status=msgspec.structs.replace(found.status, init_container_statuses=(status,))
        )


@broken("VolumeNotMounted")
def volume_is_missing(world: World) -> None:
    _wait(world, "ContainerCreating", "")
    for key in world.pods_of("web"):
        world.warn("Pod", key, "FailedMount", 'MountVolume.SetUp failed for volume "site": configmap "site" not found')


@broken("PodNetworkNotReady")
def network_plugin_fails(world: World) -> None:
    _wait(world, "ContainerCreating", "")
    for key in world.pods_of("web"):
        world.warn("Pod", key, "FailedCreatePodSandBox", "failed to set up the network: no address is free")


@broken("PodUnschedulable")
def pods_fit_on_no_node(world: World) -> None:
    message = "0/3 nodes are available: 3 Insufficient cpu."
    conditions = (Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message),)
    _pending(world, conditions)


@broken("SchedulerNotRunning")
def no_scheduler_runs(world: World) -> None:
    _pending(world, ())


@broken("PodSchedulingGated")
def pods_have_scheduling_gates(world: World) -> None:
    _pending(world, ())
    world.change_pods("web", spec_scheduling_gates=({"name": "example.com/quota"},))


@broken("PodsNotStarted")
def kubelet_starts_nothing(world: World) -> None:
    _pending(world, (), scheduled=True)


@broken("PodsStarting")
def pods_are_new(world: World) -> None:
    _wait(world, "ContainerCreating", "")
    for key in world.pods_of("web"):
        world.change_metadata(world.pods, key, creation_timestamp=format_time(NOW - 2))


@broken("ReadinessProbeFailing")
def readiness_probe_fails(world: World) -> None:
    world.change_containers("web", readiness_probe=Probe(http_get=HTTPGetAction(port=80, path="/ready")))
    world.make_unready("web")
    for key in world.pods_of("web"):
        world.warn("Pod", key, "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")


@broken("ProbePortWrong")
def readiness_probe_asks_the_wrong_port(world: World) -> None:
    world.change_containers("web", readiness_probe=Probe(http_get=HTTPGetAction(port=8080)))
    world.make_unready("web")


@broken("ProbePortWrong", "service/shop/api")
def readiness_probe_asks_an_unknown_name(world: World) -> None:
    world.change_containers("api", "shop", readiness_probe=Probe(http_get=HTTPGetAction(port="htpp")))
    world.make_unready("api", "shop")


@broken("PodsNotReady")
def pods_are_not_ready_without_a_probe(world: World) -> None:
    world.make_unready("web")


@broken("StartupProbeFailing")
def startup_probe_fails(world: World) -> None:
    world.change_containers("web", startup_probe=Probe(http_get=HTTPGetAction(port=80)))
    world.make_unready("web", started=False)


@broken("ReadinessGateUnmet")
def readiness_gate_is_not_met(world: World) -> None:
    conditions = (
        Condition(type="ContainersReady", status="True"),
        Condition(type="Ready", status="False", reason="ReadinessGatesNotReady", last_transition_time=LONG_AGO),
    )
    gates = (PodReadinessGate(condition_type="example.com/target-registered"),)
    world.change_pods("web", spec_readiness_gates=gates, status_conditions=conditions)


@broken("PodsTerminating")
def pods_are_deleted_without_successors(world: World) -> None:
    world.make_unready("web")
    for key in world.pods_of("web"):
        world.change_metadata(world.pods, key, deletion_timestamp=format_time(NOW - 20))


@broken("PodsFinished")
def pods_have_ended(world: World) -> None:
    world.change_pods("web", status_phase="Succeeded")


@broken("PodsFinished", "service/shop/api")
def pods_were_evicted(world: World) -> None:
    message = "The node was low on resource: memory."
    world.change_pods("api", "shop", status_phase="Failed", status_reason="Evicted", status_message=message)


@broken("NodeNotReady")
def node_of_all_pods_is_lost(world: World) -> None:
    world.change_pods("web", spec_node_name="node3")
    world.make_unready("web")
    _lose_node(world, "node3")


@broken("NodeNotReady", "node/node3")
def node_of_some_pods_is_lost(world: World) -> None:
    _lose_node(world, "node3")
    world.set_unready(ObjectKey("default", "web-3"))


@broken("NodeGone")
def node_of_all_pods_was_deleted(world: World) -> None:
    world.change_pods("web", spec_node_name="node9")
    world.make_unready("web")


# --- Ports ---------------------------------------------------------------------------------------------------


@broken("TargetPortNameMissing")
def target_port_name_with_a_typing_error(world: World) -> None:
    world.change_port("web", target_port="htpp")


@broken("TargetPortWrongProtocol")
def target_port_name_of_the_other_protocol(world: World) -> None:
    world.change_port("web", protocol="UDP")


@broken("TargetPortOnSomePods")
def target_port_name_on_new_pods_only(world: World) -> None:
    labels = {"app": "web", "pod-template-hash": "old"}
    world.add(pod("web-old", ("10.244.1.11",), "node1", labels, ContainerPort(container_port=80)))


@broken("NothingListens", "service/shop/api")
def target_port_number_is_wrong(world: World) -> None:
    world.change_port("api", 0, "shop", target_port=8081)


@broken("NothingListens")
def program_listens_on_another_port(world: World) -> None:
    for key in world.pods_of("web"):
        world.listeners[key] = (Listening(protocol="tcp", address="0.0.0.0", port=8000, program="python3"),)


@broken("TargetPortNotDeclared", "service/shop/api")
def target_port_number_that_nobody_declares(world: World) -> None:
    world.sees_listeners = False
    world.change_port("api", 0, "shop", target_port=8081)


@broken("ListensOnLoopbackOnly")
def program_listens_on_loopback(world: World) -> None:
    for key in world.pods_of("web"):
        world.listeners[key] = (Listening(protocol="tcp", address="127.0.0.1", port=80, program="python3"),)


@broken("ListensOnOtherProtocol", "service/shop/api")
def program_takes_udp(world: World) -> None:
    for key in world.pods_of("api", "shop"):
        world.listeners[key] = (
            Listening(protocol="udp", address="::", port=8080),
            Listening(protocol="tcp", address="::", port=9090),
        )


@broken("ListensOnOtherFamily")
def program_listens_on_ipv4_of_a_dual_stack_service(world: World) -> None:
    world.change_service("web", cluster_ips=("10.96.0.50", "fd00:10:96::50"), ip_families=("IPv4", "IPv6"))
    for key in world.pods_of("web"):
        world.listeners[key] = (Listening(protocol="tcp", address="0.0.0.0", port=80),)


@broken("TargetPortsSwapped", "service/shop/api")
def target_ports_are_swapped(world: World) -> None:
    world.change_port("api", 0, "shop", target_port=9090)
    world.change_port("api", 1, "shop", target_port="http")


@broken("HeadlessPortIgnored", "service/shop/api")
def headless_service_with_another_target_port(world: World) -> None:
    world.change_service("api", "shop", cluster_ip="None", cluster_ips=("None",))


# --- Endpoints -----------------------------------------------------------------------------------------------


@broken("FamilyWithoutPods", "service/shop/api")
def service_of_a_family_that_pods_lack(world: World) -> None:
    world.change_service(
        "api", "shop", cluster_ip="fd00:10:96::60", cluster_ips=("fd00:10:96::60",), ip_families=("IPv6",)
    )


@broken("EndpointSlicesBehind")
def no_slice_was_written(world: World) -> None:
    world.written_slices[WEB] = []


@broken("EndpointSlicesBehind")
def slices_have_pods_that_are_gone(world: World) -> None:
    old = world.slices_of(WEB)
    world.written_slices[WEB] = old
    for number, key in enumerate(world.pods_of("web")):
        found = world.pods[key]
        ips = (PodIP(ip=f"10.244.{number + 1}.99"),)
        world.pods[key] = msgspec.structs.replace(
            found, status=msgspec.structs.replace(found.status, pod_ip=ips[0].ip, pod_ips=ips)
        )


@broken("ForeignEndpointSlice")
def slice_is_left_over(world: World) -> None:
    world.more_slices.append(
        EndpointSlice(
            metadata=meta("web-old", labels={SERVICE_NAME_LABEL: "web"}),
            endpoints=(Endpoint(addresses=("10.244.7.7",)),),
            ports=(SlicePort(name="http", port=80, protocol="TCP"),),
        )
    )


@broken("EndpointsNotMirrored", "service/default/db")
def mirroring_controller_does_not_run(world: World) -> None:
    world.written_slices[DB] = []


@broken("EndpointsNotMirrored", "service/default/db")
def endpoints_are_excluded_from_mirroring(world: World) -> None:
    world.change_metadata(world.endpoints, DB, labels={"endpointslice.kubernetes.io/skip-mirror": "true"})


@broken("EndpointPortMismatch", "service/default/db")
def endpoints_have_a_port_without_a_name(world: World) -> None:
    world.add(endpoints("db", ["10.0.0.9"], EndpointPort(port=3306)))


@broken("EndpointsNotReady", "service/default/db")
def endpoints_are_not_ready(world: World) -> None:
    world.add(endpoints("db", [], EndpointPort(port=3306, name="mysql"), unready=["10.0.0.9"]))


@broken("EndpointIsClusterIP", "service/default/db")
def endpoint_is_a_cluster_ip(world: World) -> None:
    world.add(endpoints("db", ["10.96.0.50"], EndpointPort(port=3306, name="mysql")))


@broken("PodAddressClash")
def two_pods_have_one_address(world: World) -> None:
    world.add(pod("other", ("10.244.1.10",), "node2", {"run": "other"}))


# --- Addresses -----------------------------------------------------------------------------------------------


@broken("ClusterIPMissing")
def service_without_cluster_ip(world: World) -> None:
    world.change_service("web", cluster_ip="", cluster_ips=())


@broken("ClusterIPClash", "service/default/db")
def two_services_have_one_cluster_ip(world: World) -> None:
    world.change_service("db", cluster_ip="10.96.0.50", cluster_ips=("10.96.0.50",))


@broken("ExternalIPRefused")
def external_ip_is_a_cluster_ip(world: World) -> None:
    world.change_service("web", external_ips=("10.96.0.10",))


@broken("ExternalIPRefused")
def external_ip_is_loopback(world: World) -> None:
    world.change_service("web", external_ips=("127.0.0.1",))


@broken("ExternalIPHeldByNobody")
def external_ip_of_no_node(world: World) -> None:
    world.change_service("web", external_ips=("10.0.0.99",))


@broken("ExternalIPClash", "service/default/db")
def external_ip_of_two_services(world: World) -> None:
    world.change_service("web", external_ips=("10.0.0.201",))
    world.change_port("db", port=80)
    world.change_service("db", external_ips=("10.0.0.201",))


def _pending_load_balancer(reason: str, cause: str, message: str, **spec: Any) -> None:
    def change(world: World) -> None:
        world.change_service("web", type="LoadBalancer", **spec)
        condition = Condition(
            type=CONDITION, status="False", reason=reason, message=message, last_transition_time=LONG_AGO
        )
        world.services[WEB] = msgspec.structs.replace(
            world.services[WEB], status=ServiceStatus(conditions=(condition,))
        )

    change.__name__ = f"load_balancer_{reason}"
    broken(cause)(change)


_pending_load_balancer("NoPool", "LoadBalancerNoPool", "no available IPs: there is no pool")
_pending_load_balancer("PoolFull", "LoadBalancerPoolFull", 'no available IPs in pool "first" for ipv4 IPFamily')
_pending_load_balancer("NotAllowed", "LoadBalancerPoolNotAllowed", "pool first not compatible for ip assignment")
_pending_load_balancer("UnknownPool", "LoadBalancerPoolUnknown", 'unknown pool "frist"')
_pending_load_balancer(
    "OutsidePools",
    "LoadBalancerAddressOutsidePools",
    '["10.9.9.9"] is not allowed in config',
    load_balancer_ip="10.9.9.9",
)
_pending_load_balancer("AddressInUse", "LoadBalancerAddressInUse", 'can\'t change sharing key for "default/web"')
_pending_load_balancer("WrongClass", "LoadBalancerWrongClass", "the class is f5", load_balancer_class="example.com/f5")
_pending_load_balancer("InvalidConfiguration", "LoadBalancerConfigurationInvalid", "two pools overlap")
_pending_load_balancer("InvalidRequest", "LoadBalancerRequestInvalid", "Service requires dual stack")


@broken("LoadBalancerPoolFull")
def load_balancer_of_metallb_has_no_address(world: World) -> None:
    world.change_service("web", type="LoadBalancer")
    world.warn("Service", WEB, "AllocationFailed", 'Failed to allocate IP for "default/web": no available IPs')


@broken("NoLoadBalancer")
def no_load_balancer_runs(world: World) -> None:
    world.change_service("web", type="LoadBalancer")
    del world.pods[ObjectKey(SYSTEM, "bridgehead-balancer-1")]


@broken("LoadBalancerPending")
def load_balancer_gives_no_reason(world: World) -> None:
    world.change_service("web", type="LoadBalancer")


@broken("LoadBalancerNotAnnounced")
def load_balancer_address_is_not_announced(world: World) -> None:
    world.change_service("web", type="LoadBalancer")
    condition = Condition(
        type=CONDITION, status="False", reason="NoAdvertisement", message="no advertisement is for it"
    )
    _assign(world, "10.0.0.240", (condition,))


@broken("LoadBalancerOtherAddress")
def load_balancer_gave_another_address(world: World) -> None:
    world.change_service("web", type="LoadBalancer", load_balancer_ip="10.0.0.241")
    _assign(world, "10.0.0.240")


# --- Policies ------------------------------------------------------------------------------------------------


@broken("SourceRangesAllowNobody")
def source_ranges_of_the_other_family(world: World) -> None:
    world.change_service("web", type="LoadBalancer", load_balancer_source_ranges=("fd00::/8",))
    _assign(world, "10.0.0.240")


@broken("InternalLocalWithoutEndpoints", "service/shop/api")
def internal_policy_local(world: World) -> None:
    world.change_service("api", "shop", internal_traffic_policy="Local")


@broken("ExternalLocalWithoutEndpoints", "service/shop/api")
def external_policy_local(world: World) -> None:
    world.change_service("api", "shop", type="NodePort", external_traffic_policy="Local")


@broken("HintsLeaveZoneEmpty")
def hints_for_zones_that_do_not_exist(world: World) -> None:
    hints = EndpointHints(for_zones=(ForZone(name="z"),))
    world.written_slices[WEB] = [
        msgspec.structs.replace(
            each, endpoints=tuple(msgspec.structs.replace(endpoint, hints=hints) for endpoint in each.endpoints)
        )
        for each in world.slices_of(WEB)
    ]


@broken("NetworkPolicyForbidsIngress")
def network_policy_denies_all(world: World) -> None:
    _enforce_policies(world)
    world.network_policies.append(policy("deny", {}, ingress=[]))


@broken("NetworkPolicyForbidsPort", "service/shop/api")
def network_policy_allows_the_service_port(world: World) -> None:
    _enforce_policies(world)
    world.network_policies.append(policy("api", {"app": "api"}, ingress=[{"ports": [{"port": 80}]}], namespace="shop"))


@broken("NetworkPolicyAllowsNobody")
def network_policy_allows_labels_of_nobody(world: World) -> None:
    _enforce_policies(world)
    peers = [{"podSelector": {"matchLabels": {"run": "cleint"}}}]
    world.network_policies.append(policy("web", {"app": "web"}, ingress=[{"from": peers}]))


@broken("NetworkPolicyForbidsDns", "networkpolicy/default/egress")
def network_policy_forbids_the_dns(world: World) -> None:
    _enforce_policies(world)
    world.network_policies.append(policy("egress", {"run": "client"}, egress=[{"ports": [{"port": 80}]}]))


@broken("NetworkPolicyForbidsIngress")
def network_policy_without_a_known_plugin(world: World) -> None:
    world.network_policies.append(policy("deny", {}, ingress=[]))


# --- Proxies -------------------------------------------------------------------------------------------------


@broken("LeftToOtherProxy")
def service_is_left_to_another_proxy(world: World) -> None:
    world.change_metadata(world.services, WEB, labels={PROXY_NAME_LABEL: "edge"})


@broken("ProxyRefusesService")
def kernels_refuse_the_service(world: World) -> None:
    for name, progress in world.progress.items():
        world.progress[name] = progress._replace(refused=("default/web",))


@broken("ProxyNotRunning", "node/node2")
def proxy_of_a_node_crashes(world: World) -> None:
    key = ObjectKey(SYSTEM, "kube-proxy-2")
    failed = ContainerStateTerminated(exit_code=1, reason="Error", message="cannot reach the API server")
    state = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    world.set_unready(key, state=state, last_state=ContainerState(terminated=failed))


@broken("ProxyNotRunning", "node/node2")
def proxy_of_a_node_is_missing(world: World) -> None:
    del world.pods[ObjectKey(SYSTEM, "kube-proxy-2")]
    del world.progress["node2"]


@broken("ProxyWithoutProgram", "node/node2")
def proxy_lacks_its_program(world: World) -> None:
    key = ObjectKey(SYSTEM, "kube-proxy-2")
    failed = ContainerStateTerminated(
        exit_code=1, reason="Error", message="nft is missing: install the package nftables"
    )
    state = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    world.set_unready(key, state=state, last_state=ContainerState(terminated=failed))


@broken("ProxySilent", "node/node2")
def proxy_hangs(world: World) -> None:
    world.progress["node2"] = world.progress["node2"]._replace(renewed=NOW - 300, expires=NOW - 260)


@broken("ProxyBehind")
def proxy_of_a_node_is_behind(world: World) -> None:
    world.change_metadata(world.services, WEB, resource_version="120")
    for name in ("node1", "node3"):
        world.progress[name] = world.progress[name]._replace(programmed=Versions(120, 120))


@broken("ProxyInOtherMode", "node/node3")
def proxy_is_in_another_mode(world: World) -> None:
    mode = ModeInUse("nftables", "ipvs", "the kernel has no ip_vs")
    world.progress["node3"] = world.progress["node3"]._replace(mode=mode)


# --- DNS -----------------------------------------------------------------------------------------------------

DNS = "service/kube-system/kube-dns"


@broken("DnsWithoutEndpoints", DNS)
def dns_pods_crash(world: World) -> None:
    _crash(world, ContainerStateTerminated(exit_code=1, reason="Error", message="bad Corefile"), "kube-dns", SYSTEM)


@broken("DnsWithoutEndpoints", DNS)
def dns_is_scaled_to_zero(world: World) -> None:
    _remove_pods(world, "kube-dns", SYSTEM)
    next(each for each in world.workloads if each["metadata"]["name"] == "coredns")["spec"]["replicas"] = 0


@broken("DnsForwardingLoop", DNS)
def dns_forwards_to_its_own_service(world: World) -> None:
    _corefile(world, ".:53 {\n    kubernetes cluster.local\n    forward . 10.96.0.10\n}\n")


@broken("DnsForwardingLoop", DNS)
def dns_detected_a_loop(world: World) -> None:
    message = '[FATAL] plugin/loop: Loop (127.0.0.1:5 -> :53) detected for zone "."'
    _crash(world, ContainerStateTerminated(exit_code=1, reason="Error", message=message), "kube-dns", SYSTEM)


@broken("DnsZoneMissing", DNS)
def dns_without_the_cluster_zone(world: World) -> None:
    _corefile(world, ".:53 {\n    forward . 192.0.2.53\n}\n")


@broken("DnsServiceMissing", DNS)
def dns_service_was_deleted(world: World) -> None:
    del world.services[ObjectKey(SYSTEM, "kube-dns")]


@broken("SearchListCut", "pod/default/client")
def search_list_is_too_long(world: World) -> None:
    _client(world, dns_config=PodDNSConfig(searches=tuple(f"zone{number}.example.com" for number in range(31))))


@broken("PodSkipsClusterDns", "pod/default/client")
def pod_asks_the_node_dns(world: World) -> None:
    _client(world, dns_policy="Default")


@broken("NdotsHigh", "pod/default/client")
def pod_has_many_ndots(world: World) -> None:
    _client(world, dns_config=PodDNSConfig(options=(PodDNSConfigOption(name="ndots", value="15"),)))


# --- Ingresses and StatefulSets ------------------------------------------------------------------------------


@broken("IngressToMissingService", "ingress/default/site")
def ingress_to_a_missing_service(world: World) -> None:
    _ingress(world, "wbe", {"number": 80})


@broken("IngressToMissingPort", "ingress/default/site")
def ingress_to_a_missing_port(world: World) -> None:
    _ingress(world, "web", {"number": 8080})


@broken("IngressClassMissing", "ingress/default/site")
def ingress_of_an_unknown_class(world: World) -> None:
    _ingress(world, "web", {"number": 80}, "ngnix")


@broken("IngressWithoutClass", "ingress/default/site")
def ingress_without_a_class(world: World) -> None:
    _ingress(world, "web", {"number": 80}, "")


@broken("StatefulSetServiceMissing", "statefulset/default/store")
def stateful_set_without_its_service(world: World) -> None:
    world.workloads.append(deployment("store", {"app": "store"}, 1, kind="StatefulSet"))
    world.workloads[-1]["spec"]["serviceName"] = "store-headless"


# --- Nodes and certificates ----------------------------------------------------------------------------------


@broken("NodeUnderPressure", "node/node2")
def node_lacks_disk_space(world: World) -> None:
    _condition(world, "node2", Condition(type="DiskPressure", status="True", reason="KubeletHasDiskPressure"))


@broken("NodeNetworkUnavailable", "node/node2")
def node_network_is_not_set_up(world: World) -> None:
    _condition(world, "node2", Condition(type="NetworkUnavailable", status="True", reason="NoRouteCreated"))


@broken("NodeAddressClash", "node/node2")
def two_nodes_have_one_address(world: World) -> None:
    status = world.nodes["node1"].status
    world.nodes["node2"] = msgspec.structs.replace(world.nodes["node2"], status=status)


@broken("PodCidrClash", "node/node2")
def pod_ranges_overlap(world: World) -> None:
    spec = msgspec.structs.replace(world.nodes["node2"].spec, pod_cidr="10.244.0.0/16", pod_cidrs=("10.244.1.0/25",))
    world.nodes["node2"] = msgspec.structs.replace(world.nodes["node2"], spec=spec)


@broken("ServiceCidrClash", "node/node1")
def service_range_contains_nodes(world: World) -> None:
    world.service_cidrs = ("10.96.0.0/12", "10.0.0.0/24")


@broken("CertificateExpired", "cluster")
def certificate_has_ended(world: World) -> None:
    world.certificates.append(CertificateEnd("the API server", NOW - 60))


# --- Notices --------------------------------------------------------------------------------------------


@broken("CertificateExpiresSoon", "cluster")
def certificate_ends_soon(world: World) -> None:
    world.certificates.append(CertificateEnd("the API server", NOW + 3 * 86400))


@broken("ProxyWarns", "node/node1")
def proxy_lacks_ipv6(world: World) -> None:
    mode = ModeInUse("iptables", "iptables", "no IPv6: ip6tables is missing")
    world.progress["node1"] = world.progress["node1"]._replace(mode=mode)


@broken("StatefulSetServiceNotHeadless", "statefulset/default/store")
def stateful_set_with_a_cluster_ip(world: World) -> None:
    world.workloads.append(deployment("store", {"app": "store"}, 1, kind="StatefulSet"))
    world.workloads[-1]["spec"]["serviceName"] = "web"


@broken("AffinityWithoutProxy")
def affinity_of_a_headless_service(world: World) -> None:
    world.change_service("web", cluster_ip="None", cluster_ips=("None",), session_affinity="ClientIP")


@broken("HintsIncomplete")
def hints_of_some_endpoints(world: World) -> None:
    hints = EndpointHints(for_zones=(ForZone(name="a"),))
    [item] = world.slices_of(WEB)
    first, *others = item.endpoints
    world.written_slices[WEB] = [
        msgspec.structs.replace(item, endpoints=(msgspec.structs.replace(first, hints=hints), *others))
    ]


@broken("HintsLeaveZoneEmpty", "service/shop/api")
def hints_leave_a_zone_without_endpoints(world: World) -> None:
    world.change_service("api", "shop", traffic_distribution="PreferClose")


@broken("NodesWithoutZone")
def zones_are_missing(world: World) -> None:
    world.change_metadata(world.nodes, "node2", labels={})
    world.change_service("web", traffic_distribution="PreferClose")
    world.written_slices[WEB] = [
        msgspec.structs.replace(
            each, endpoints=tuple(msgspec.structs.replace(endpoint, hints=None) for endpoint in each.endpoints)
        )
        for each in world.slices_of(WEB)
    ]


@broken("ClusterIPOutsideRange")
def cluster_ip_of_an_earlier_range(world: World) -> None:
    world.change_service("web", cluster_ip="10.200.0.5", cluster_ips=("10.200.0.5",))


@broken("SourceRangesIgnored")
def source_ranges_of_a_cluster_ip(world: World) -> None:
    world.change_service("web", load_balancer_source_ranges=("10.0.0.0/8",))


@broken("ExternalNamePortsIgnored", "service/default/alias")
def alias_with_a_target_port(world: World) -> None:
    world.add(
        service(
            "alias",
            ServicePort(port=80, target_port=8080),
            type="ExternalName",
            external_name="www.example.com",
            ip_families=(),
        )
    )


@broken("ContainerCrashing")
def some_pods_crash(world: World) -> None:
    waiting = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    world.set_unready(ObjectKey("default", "web-3"), state=waiting, restart_count=7)


# --- Helpers -------------------------------------------------------------------------------------------------


def _enforce_policies(world: World) -> None:
    world.workloads.append(deployment("calico-node", {"k8s-app": "calico-node"}, 3, "calico-system", "DaemonSet"))


def _remove_pods(world: World, app: str, namespace: str = "default") -> None:
    for key in world.pods_of(app, namespace):
        del world.pods[key]


def _wait(world: World, reason: str, message: str, app: str = "web", namespace: str = "default") -> None:
    waiting = ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message))
    world.change_pods(app, namespace, status_phase="Pending")
    world.make_unready(app, namespace, state=waiting, started=False)


def _crash(world: World, ended: ContainerStateTerminated, app: str = "web", namespace: str = "default") -> None:
    waiting = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    last = ContainerState(terminated=ended)
    world.make_unready(app, namespace, state=waiting, last_state=last, restart_count=7, started=False)


def _pending(world: World, conditions: tuple[Condition, ...], *, scheduled: bool = False) -> None:
    for key in world.pods_of("web"):
        found = world.pods[key]
        spec = found.spec if scheduled else msgspec.structs.replace(found.spec, node_name="")
        world.pods[key] = msgspec.structs.replace(
            found, spec=spec, status=PodStatus(phase="Pending", conditions=conditions)
        )


def _condition(world: World, name: str, condition: Condition) -> None:
    found = world.nodes[name]
    kept = tuple(each for each in found.status.conditions if each.type != condition.type)
    world.nodes[name] = msgspec.structs.replace(
        found, status=msgspec.structs.replace(found.status, conditions=(*kept, condition))
    )


def _lose_node(world: World, name: str) -> None:
    message = "Kubelet stopped posting node status."
    _condition(world, name, Condition(type="Ready", status="Unknown", reason="NodeStatusUnknown", message=message))


def _assign(world: World, address: str, conditions: tuple[Condition, ...] = ()) -> None:
    status = ServiceStatus(
        load_balancer=LoadBalancerStatus(ingress=(LoadBalancerIngress(ip=address, ip_mode="VIP"),)),
        conditions=conditions,
    )
    world.services[WEB] = msgspec.structs.replace(world.services[WEB], status=status)


def _corefile(world: World, text: str) -> None:
    world.config_maps[ObjectKey(SYSTEM, "coredns")] = ConfigMap(
        metadata=meta("coredns", SYSTEM), data={"Corefile": text}
    )


def _client(world: World, **spec: Any) -> None:
    world.add(pod("client", ("10.244.1.30",), "node1", {"run": "client"}, **spec))


def _ingress(world: World, name: str, port: dict[str, int], class_: str = "nginx") -> None:
    backend = {"service": {"name": name, "port": port}}
    spec: dict[str, Any] = {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]}
    spec |= {"ingressClassName": class_} if class_ else {}
    world.ingresses.append({"metadata": {"name": "site", "namespace": "default"}, "spec": spec})
