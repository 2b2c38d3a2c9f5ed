"""Validation of a Service and of its updates.

Called by `services.ServiceStrategy`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidateService`, `ValidateServiceUpdate` and the Service API reference.
"""

from __future__ import annotations

from bridgehead.apiserver.field import IMMUTABLE, Field, internal_value
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.address_rules import (
    IPV4,
    IPV6,
    check_dns_name,
    check_endpoint_ip,
    check_ip,
    family_of,
)
from bridgehead.apiserver.resources.shared.metadata_validation import validate_labels
from bridgehead.apiserver.resources.shared.port_rules import PROTOCOLS, validate_port_number_or_name
from bridgehead.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_port_number,
    check_qualified_name,
)

from .service_source_ranges import validate_source_ranges
from .service_types import HEADLESS, is_headless, is_reachable_from_outside, needs_health_check_port

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FAMILIES = (IPV4, IPV6)
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_ADDRESS_FIELDS = frozenset({"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"})
_TRAFFIC_POLICIES = ("Cluster", "Local")
_TRAFFIC_DISTRIBUTIONS = ("PreferClose", "PreferSameNode", "PreferSameZone")
_IP_MODES = ("Proxy", "VIP")
_AFFINITIES = ("ClientIP", "None")
_MAX_AFFINITY_SECONDS = 86400
# The fields of Kubernetes' internal ServicePort.
_PORT = {"name": "", "protocol": "", "appProtocol": None, "port": 0, "targetPort": 0, "nodePort": 0}
_KUBELET_PORT = 10250
_ONLY_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'"
_UNCHANGEABLE = "may not change once set"


def validate_service(service: Field) -> None:
    """Validate a completed Service."""
    spec = service.at("spec", {})
    ports = spec.at("ports")
    if not is_headless(spec.value) and spec.get("type") != "ExternalName":
        ports.must_be_set()
    _validate_for_type(spec)
    _validate_ports(ports)
    validate_labels(spec.at("selector"))
    _validate_session_affinity(spec)
    validate_cluster_ips(spec, None)
    spec.at("externalIPs").must_all_pass(check_endpoint_ip)
    spec.at("type", "").must_be_one_of(_TYPES)
    _validate_port_pairs(spec)
    _validate_load_balancer(service)
    _validate_traffic_policies(spec)
    _validate_status(service)


def validate_service_update(spec: Field, old: JsonObject) -> None:
    """Validate the change of a Service's spec from `old`."""
    types = spec.get("type"), old.get("type")
    if "ExternalName" not in types:
        were_headless = is_headless(spec.value), is_headless(old)
        if not all(were_headless):
            _validate_cluster_ips_update(spec, old)
        if not any(were_headless):
            _validate_families_update(spec, old)
    if types == ("LoadBalancer", "LoadBalancer"):
        spec.at("loadBalancerClass").must_not_change(old.get("loadBalancerClass"), _UNCHANGEABLE)
    if needs_health_check_port(spec.value) and needs_health_check_port(old):
        port = spec.at("healthCheckNodePort")
        if port.value != old.get("healthCheckNodePort"):
            port.forbidden(IMMUTABLE)


# --- Type ------------------------------------------------------------------------------------------------


def _validate_for_type(spec: Field) -> None:
    kind = spec.get("type")
    if kind == "LoadBalancer":
        for port in spec.at("ports").each():
            if port.get("port") == _KUBELET_PORT:
                detail = f"may not expose port {_KUBELET_PORT} externally since it is used by kubelet"
                port.showing(_KUBELET_PORT).invalid(detail)
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec.value):
        spec.at("clusterIPs").item(0).invalid(f"may not be set to 'None' for {kind} services")
    elif kind == "ExternalName":
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            spec.at(name).must_not_be_set("may not be set for ExternalName services")
        # A fully qualified name ends with a dot.
        host = spec.get("externalName", "").removesuffix(".")
        spec.at("externalName").showing(host).must_be_set_and_pass(check_dns1123_subdomain)


# --- Ports -----------------------------------------------------------------------------------------------


def _validate_ports(ports: Field) -> None:
    names: set[str] = set()
    needs_name = len(ports.value or ()) > 1
    for port in ports.each():
        if name := port.at("name"):
            name.must_pass(check_dns1123_label)
            name.must_not_repeat(names)
        elif needs_name:
            name.required()
        port.at("port", 0).must_pass(check_port_number)
        port.at("protocol", "").must_be_one_of(PROTOCOLS)
        validate_port_number_or_name(port.at("targetPort", 0))
        port.at("appProtocol").must_pass(check_qualified_name)


def _validate_port_pairs(spec: Field) -> None:
    """Validate that no two ports have one protocol and one number, or one protocol and one node port."""
    ports = spec.at("ports")
    if spec.get("type") == "ClusterIP":
        for port in ports.each():
            port.at("nodePort").must_not_be_set("may not be used when `type` is 'ClusterIP'")
    for port in ports.repeated(lambda port: (port.get("protocol", ""), port.get("nodePort", 0))):
        if node_port := port.at("nodePort"):
            node_port.duplicate()
    for port in ports.repeated(lambda port: (port.get("protocol", ""), port.get("port", 0))):
        shown = {name: port.value[name] for name in ("protocol", "port") if name in port.value}
        port.showing(internal_value(shown, _PORT)).duplicate()


# --- Session affinity ------------------------------------------------------------------------------------


def _validate_session_affinity(spec: Field) -> None:
    """Validate the affinity. Defaults have completed the configuration for ClientIP, and removed it for None."""
    affinity = spec.at("sessionAffinity", "")
    if affinity.must_be_one_of(_AFFINITIES) and affinity.value == "ClientIP":
        seconds = spec.at("sessionAffinityConfig").at("clientIP").at("timeoutSeconds")
        detail = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
        seconds.must_be_within(1, _MAX_AFFINITY_SECONDS, detail)


# --- Addresses and families ------------------------------------------------------------------------------


def validate_cluster_ips(spec: Field, old: JsonObject | None) -> None:
    """Validate `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` against each other.

    Unchanged addresses are not checked again: they may have been stored before a rule existed.
    """
    if spec.get("type") == "ExternalName":
        return  # _validate_for_type forbids these fields
    if _ADDRESS_FIELDS.isdisjoint(spec.value):
        return  # as most clients leave them out
    first, addresses = spec.get("clusterIP"), spec.at("clusterIPs", [])
    if first and not addresses:
        addresses.required()
    elif first and addresses.value[0] != first:
        addresses.invalid("first value must match `clusterIP`")
    elif addresses and not first:
        addresses.invalid("must be empty when `clusterIP` is not specified")
    _validate_families(spec)
    is_kept = old is not None and old.get("clusterIPs") == addresses.value
    are_well_formed = is_kept or addresses.must_obey(_validate_address_list)
    if len(addresses.value) > 2:
        addresses.invalid("may only hold up to 2 values")
    if are_well_formed:
        _validate_address_families(spec, addresses)


def _validate_families(spec: Field) -> None:
    seen: set[str] = set()
    for family in spec.at("ipFamilies").each():
        family.must_be_one_of(_FAMILIES)
        family.must_not_repeat(seen)
    spec.at("ipFamilyPolicy").must_be_one_of(_FAMILY_POLICIES)


def _validate_address_list(addresses: Field) -> None:
    for index, address in enumerate(addresses.each()):
        if index > 0 or address.value != HEADLESS:
            address.must_pass(check_ip)
        elif len(addresses.value) > 1:
            addresses.invalid("'None' must be the first and only value")


def _validate_address_families(spec: Field, addresses: Field) -> None:
    if len(addresses.value) > 1 and len({family_of(address) for address in addresses.value}) == 1:
        addresses.invalid("may specify no more than one IP for each IP family")
    if is_headless(spec.value):
        return
    for index, (address, family) in enumerate(zip(addresses.each(), spec.get("ipFamilies", ()), strict=False)):
        if family in _FAMILIES and family_of(address.value) != family:
            address.invalid(f"expected an {family} value as indicated by `ipFamilies[{index}]`")


def _validate_cluster_ips_update(spec: Field, old: JsonObject) -> None:
    addresses, before = spec.at("clusterIPs", []), old.get("clusterIPs", [])
    if len(addresses.value) != len(before):
        _validate_growth(spec, addresses, "clusterIP", before)
        return
    for address, old_address in zip(addresses.each(), before, strict=True):
        if address.value != old_address:
            address.showing(addresses.value).invalid(_UNCHANGEABLE)


def _validate_families_update(spec: Field, old: JsonObject) -> None:
    families, before = spec.at("ipFamilies", []), old.get("ipFamilies", [])
    if len(families.value) != len(before):
        _validate_growth(spec, families, "ipFamily", before)
        return
    for family, old_family in zip(families.value, before, strict=True):
        if family != old_family:
            families.item(0).showing(families.value).invalid(_UNCHANGEABLE)  # always the first one, as in Kubernetes


def _validate_growth(spec: Field, values: Field, what: str, before: list[str]) -> None:
    """Validate a list of changed length: the first element stays, the second may go only with SingleStack."""
    primary, policy = values.item(0), spec.at("ipFamilyPolicy")
    if not values:
        primary.showing(values.value).invalid(f"primary {what} can not be unset")
    elif before and primary.value != before[0]:
        primary.showing(spec.get("clusterIPs")).invalid(_UNCHANGEABLE)  # also for ipFamilies
    if len(before) > len(values.value) == 1 and policy.value != "SingleStack":
        policy.invalid(f"must be set to 'SingleStack' when releasing the secondary {what}")


# --- Load balancers and traffic policies -----------------------------------------------------------------


def _validate_load_balancer(service: Field) -> None:
    validate_source_ranges(service)
    spec = service.at("spec", {})
    if spec.get("type") == "LoadBalancer":
        spec.at("loadBalancerClass").must_pass(check_qualified_name)
        return
    spec.must_have_none_of(("allocateLoadBalancerNodePorts", "loadBalancerClass"), _ONLY_LOAD_BALANCER)


def _validate_traffic_policies(spec: Field) -> None:
    external, port = spec.at("externalTrafficPolicy", ""), spec.at("healthCheckNodePort")
    if is_reachable_from_outside(spec.value):
        external.must_be_one_of(_TRAFFIC_POLICIES)
    elif external:
        external.invalid("may only be set for externally-accessible services")
    if needs_health_check_port(spec.value):
        port.must_be_set_and_pass(check_port_number)
    elif port:
        port.invalid("may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
    spec.at("internalTrafficPolicy").must_be_one_of(_TRAFFIC_POLICIES)
    spec.at("trafficDistribution").must_be_one_of(_TRAFFIC_DISTRIBUTIONS)


def _validate_status(service: Field) -> None:
    addresses = service.at("status").at("loadBalancer").at("ingress")
    if addresses and service.at("spec").get("type") != "LoadBalancer":
        addresses.forbidden("may only be used when `spec.type` is 'LoadBalancer'")
        return
    for address in addresses.each():
        ip, mode = address.at("ip"), address.at("ipMode")
        if ip:
            ip.must_pass(check_ip)
            mode.must_be_one_of(_IP_MODES)
        else:
            mode.must_not_exist("may not be specified when `ip` is not set")
        address.if_set("hostname").must_pass(check_dns_name)
