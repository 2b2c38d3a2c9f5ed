"""Validation of a Service and of its updates.

Called by `services.ServiceStrategy`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidateService`, `ValidateServiceUpdate` and the Service API reference.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import (
    IPV4,
    IPV6,
    check_endpoint_ip,
    check_ip,
    family_of,
    parse_ip,
)
from bridgehead.apiserver.resources.shared.metadata_validation import validate_labels
from bridgehead.apiserver.resources.shared.ports import PROTOCOLS, validate_port_number_or_name
from bridgehead.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_port_number,
    check_qualified_name,
)

from .service_source_ranges import validate_source_ranges
from .service_transitions import HEADLESS, is_headless, is_reachable_from_outside, needs_health_check_port

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FAMILIES = (IPV4, IPV6)
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_ADDRESS_FIELDS = frozenset({"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"})
_TRAFFIC_POLICIES = ("Cluster", "Local")
_TRAFFIC_DISTRIBUTIONS = ("PreferClose", "PreferSameNode", "PreferSameZone")
_IP_MODES = ("Proxy", "VIP")
_AFFINITIES = ("ClientIP", "None")
_AFFINITY_SECONDS = (1, 86400)
# The fields of Kubernetes' internal ServicePort.
_PORT = {"name": "", "protocol": "", "appProtocol": None, "port": 0, "targetPort": 0, "nodePort": 0}
_KUBELET_PORT = 10250
_ONLY_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'"
_UNCHANGEABLE = "may not change once set"


def validate_service(service: JsonObject) -> list[FieldError]:
    """Validate a completed Service."""
    spec = service.get("spec", {})
    return [
        *_require_ports(spec),
        *_validate_for_type(spec),
        *_validate_ports(spec),
        *field.errors_below("spec.selector", validate_labels, spec.get("selector", {})),
        *_validate_session_affinity(spec),
        *validate_cluster_ips(spec, None),
        *_validate_external_ips(spec),
        *field.one_of("spec.type", spec.get("type", ""), _TYPES),
        *_validate_port_pairs(spec),
        *_validate_load_balancer(service),
        *_validate_traffic_policies(spec),
        *_validate_status(service),
    ]


def validate_service_update(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate the change from `old` to `spec`."""
    errors = []
    if "ExternalName" not in (spec.get("type"), old.get("type")):
        errors.extend(_validate_cluster_ips_update(spec, old))
        if not is_headless(spec) and not is_headless(old):
            errors.extend(_validate_families_update(spec, old))
    if spec.get("type") == old.get("type") == "LoadBalancer":
        load_balancer_class = spec.get("loadBalancerClass")
        if load_balancer_class != old.get("loadBalancerClass"):
            errors.append(field.invalid("spec.loadBalancerClass", load_balancer_class, _UNCHANGEABLE))
    if (
        needs_health_check_port(spec)
        and needs_health_check_port(old)
        and spec.get("healthCheckNodePort") != old.get("healthCheckNodePort")
    ):
        errors.append(field.forbidden("spec.healthCheckNodePort", field.IMMUTABLE))
    return errors


# --- Type ------------------------------------------------------------------------------------------------


def _require_ports(spec: JsonObject) -> list[FieldError]:
    if spec.get("ports") or is_headless(spec) or spec.get("type") == "ExternalName":
        return []
    return [field.required("spec.ports")]


def _validate_for_type(spec: JsonObject) -> list[FieldError]:
    errors = []
    if spec.get("type") == "LoadBalancer":
        detail = f"may not expose port {_KUBELET_PORT} externally since it is used by kubelet"
        errors = [
            field.invalid(f"spec.ports[{index}]", _KUBELET_PORT, detail)
            for index, port in enumerate(spec.get("ports", ()))
            if port.get("port") == _KUBELET_PORT
        ]
    match spec.get("type"):
        case "LoadBalancer" | "NodePort" as type_ if is_headless(spec):
            detail = f"may not be set to 'None' for {type_} services"
            errors.append(field.invalid("spec.clusterIPs[0]", HEADLESS, detail))
        case "ExternalName":
            errors.extend(
                field.forbidden(f"spec.{name}", "may not be set for ExternalName services")
                for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
                if spec.get(name)
            )
            errors.extend(_validate_external_name(str(spec.get("externalName", ""))))
    return errors


def _validate_external_name(name: str) -> list[FieldError]:
    name = name.removesuffix(".")  # fully qualified
    if not name:
        return [field.required("spec.externalName")]
    return field.invalid_for("spec.externalName", name, check_dns1123_subdomain(name))


# --- Ports -----------------------------------------------------------------------------------------------


def _validate_ports(spec: JsonObject) -> list[FieldError]:
    ports = spec.get("ports", ())
    errors = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        errors.extend(_validate_port(f"spec.ports[{index}]", port, len(ports) > 1, names))
    return errors


def _validate_port_pairs(spec: JsonObject) -> list[FieldError]:
    """Validate that no two ports have one protocol and one number, or one protocol and one node port."""
    ports = spec.get("ports", ())
    errors = []
    if spec.get("type") == "ClusterIP":
        errors = [
            field.forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
            for index, port in enumerate(ports)
            if port.get("nodePort", 0)
        ]
    with_node_port = [(index, port) for index, port in enumerate(ports) if port.get("nodePort", 0)]
    pairs = [(port.get("protocol", ""), port["nodePort"]) for _, port in with_node_port]
    for position in field.repeated(pairs):
        index, port = with_node_port[position]
        errors.append(field.duplicate(f"spec.ports[{index}].nodePort", port["nodePort"]))
    for index in field.repeated((port.get("protocol", ""), port.get("port", 0)) for port in ports):
        shown = {name: ports[index][name] for name in ("port", "protocol") if name in ports[index]}
        errors.append(field.duplicate(f"spec.ports[{index}]", field.internal_value(shown, _PORT)))
    return errors


def _validate_port(path: str, port: JsonObject, needs_name: bool, names: set[str]) -> list[FieldError]:
    """Validate a port; `names` are those of the ports before, and get its own."""
    errors = []
    if name := port.get("name", ""):
        errors.extend(field.invalid_for(f"{path}.name", name, check_dns1123_label(name)))
        if name in names:
            errors.append(field.duplicate(f"{path}.name", name))
        names.add(name)
    elif needs_name:
        errors.append(field.required(f"{path}.name"))
    number = port.get("port", 0)
    errors.extend(field.invalid_for(f"{path}.port", number, check_port_number(number)))
    errors.extend(field.one_of(f"{path}.protocol", port.get("protocol", ""), PROTOCOLS))
    errors.extend(field.errors_below(f"{path}.targetPort", validate_port_number_or_name, port.get("targetPort", 0)))
    if (app_protocol := port.get("appProtocol")) is not None:
        errors.extend(field.invalid_for(f"{path}.appProtocol", app_protocol, check_qualified_name(app_protocol)))
    return errors


# --- Session affinity ------------------------------------------------------------------------------------


def _validate_session_affinity(spec: JsonObject) -> list[FieldError]:
    """Validate the affinity. Defaults have completed the configuration for ClientIP, and removed it for None."""
    affinity = spec.get("sessionAffinity", "")
    if affinity != "ClientIP":
        return field.one_of("spec.sessionAffinity", affinity, _AFFINITIES)
    seconds, (least, most) = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], _AFFINITY_SECONDS
    if least <= seconds <= most:
        return []
    detail = f"must be greater than 0 and less than {most}"
    return [field.invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, detail)]


# --- Addresses and families ------------------------------------------------------------------------------


def validate_cluster_ips(spec: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` against each other.

    Unchanged addresses are not checked again: they may have been stored before a rule existed.
    """
    if spec.get("type") == "ExternalName":
        return []  # _validate_for_type forbids these fields
    if _ADDRESS_FIELDS.isdisjoint(spec):
        return []  # as most clients leave them out
    path, one, many = "spec.clusterIPs", spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    errors = []
    if one and not many:
        errors.append(field.required(path))
    elif one and many[0] != one:
        errors.append(field.invalid(path, many, "first value must match `clusterIP`"))
    elif many and not one:
        errors.append(field.invalid(path, many, "must be empty when `clusterIP` is not specified"))
    errors.extend(_validate_families(spec))
    malformed = _validate_address_list(path, many) if old is None or old.get("clusterIPs") != many else []
    errors.extend(malformed)
    if len(many) > 2:
        errors.append(field.invalid(path, many, "may only hold up to 2 values"))
    if malformed:
        return errors
    if len(many) > 1 and len({family_of(address) for address in many}) == 1:
        errors.append(field.invalid(path, many, "may specify no more than one IP for each IP family"))
    if not is_headless(spec):
        for index, (address, family) in enumerate(zip(many, spec.get("ipFamilies", ()), strict=False)):
            if family in _FAMILIES and family_of(address) != family:
                detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                errors.append(field.invalid(f"{path}[{index}]", address, detail))
    return errors


def _validate_families(spec: JsonObject) -> list[FieldError]:
    errors = []
    seen: set[str] = set()
    for index, family in enumerate(spec.get("ipFamilies", ())):
        errors.extend(field.one_of(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in seen:
            errors.append(field.duplicate(f"spec.ipFamilies[{index}]", family))
        seen.add(family)
    if "ipFamilyPolicy" in spec:
        errors.extend(field.one_of("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], _FAMILY_POLICIES))
    return errors


def _validate_address_list(path: str, addresses: list[str]) -> list[FieldError]:
    errors = []
    for index, address in enumerate(addresses):
        if index == 0 and address == HEADLESS:
            if len(addresses) > 1:
                errors.append(field.invalid(path, addresses, "'None' must be the first and only value"))
            continue
        errors.extend(field.invalid_for(f"{path}[{index}]", address, check_ip(address)))
    return errors


def _validate_external_ips(spec: JsonObject) -> list[FieldError]:
    errors = []
    for index, address in enumerate(spec.get("externalIPs", ())):
        errors.extend(field.invalid_for(f"spec.externalIPs[{index}]", address, check_endpoint_ip(address)))
    return errors


def _validate_cluster_ips_update(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    if is_headless(spec) and is_headless(old):
        return []
    now, before = spec.get("clusterIPs", []), old.get("clusterIPs", [])
    path = "spec.clusterIPs"
    if len(now) == len(before):
        return [
            field.invalid(f"{path}[{index}]", now, _UNCHANGEABLE)
            for index, (new_ip, old_ip) in enumerate(zip(now, before, strict=True))
            if new_ip != old_ip
        ]
    return _validate_growth(spec, f"{path}[0]", "clusterIP", now, before)


def _validate_families_update(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    now, before = spec.get("ipFamilies", []), old.get("ipFamilies", [])
    path = "spec.ipFamilies[0]"
    if len(now) == len(before):
        changed = [new for new, old_family in zip(now, before, strict=True) if new != old_family]
        return [field.invalid(path, now, _UNCHANGEABLE) for _ in changed]
    return _validate_growth(spec, path, "ipFamily", now, before)


def _validate_growth(
    spec: JsonObject, primary: str, what: str, now: Sequence[str], before: Sequence[str]
) -> list[FieldError]:
    """Validate a list of changed length: the first element stays, the second may go only with SingleStack."""
    errors = []
    if not now:
        errors.append(field.invalid(primary, now, f"primary {what} can not be unset"))
    elif before and now[0] != before[0]:
        errors.append(field.invalid(primary, spec.get("clusterIPs"), _UNCHANGEABLE))  # also for ipFamilies
    if len(before) > len(now) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        detail = f"must be set to 'SingleStack' when releasing the secondary {what}"
        errors.append(field.invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), detail))
    return errors


# --- Load balancers and traffic policies -----------------------------------------------------------------


def _validate_load_balancer(service: JsonObject) -> list[FieldError]:
    spec = service.get("spec", {})
    is_load_balancer = spec.get("type") == "LoadBalancer"
    errors = validate_source_ranges(service)
    errors.extend(
        field.forbidden(f"spec.{name}", _ONLY_LOAD_BALANCER)
        for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass")
        if name in spec and not is_load_balancer
    )
    if is_load_balancer and "loadBalancerClass" in spec:
        name = spec["loadBalancerClass"]
        errors.extend(field.invalid_for("spec.loadBalancerClass", name, check_qualified_name(name)))
    return errors


def _validate_traffic_policies(spec: JsonObject) -> list[FieldError]:
    errors = []
    external = spec.get("externalTrafficPolicy", "")
    if is_reachable_from_outside(spec):
        errors.extend(field.one_of("spec.externalTrafficPolicy", external, _TRAFFIC_POLICIES))
    elif external:
        detail = "may only be set for externally-accessible services"
        errors.append(field.invalid("spec.externalTrafficPolicy", external, detail))
    path, port = "spec.healthCheckNodePort", spec.get("healthCheckNodePort", 0)
    if not needs_health_check_port(spec):
        if port:
            detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            errors.append(field.invalid(path, port, detail))
    elif not port:
        errors.append(field.required(path))
    else:
        errors.extend(field.invalid_for(path, port, check_port_number(port)))
    if "internalTrafficPolicy" in spec:
        path = "spec.internalTrafficPolicy"
        errors.extend(field.one_of(path, spec["internalTrafficPolicy"], _TRAFFIC_POLICIES))
    if "trafficDistribution" in spec:
        path = "spec.trafficDistribution"
        errors.extend(field.one_of(path, spec["trafficDistribution"], _TRAFFIC_DISTRIBUTIONS))
    return errors


def _validate_status(service: JsonObject) -> list[FieldError]:
    path = "status.loadBalancer.ingress"
    ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    if ingress and service.get("spec", {}).get("type") != "LoadBalancer":
        return [field.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    errors = []
    for index, one in enumerate(ingress):
        address, hostname = one.get("ip", ""), one.get("hostname", "")
        if address:
            errors.extend(field.invalid_for(f"{path}[{index}].ip", address, check_ip(address)))
        if "ipMode" in one and not address:
            errors.append(field.forbidden(f"{path}[{index}].ipMode", "may not be specified when `ip` is not set"))
        elif "ipMode" in one:
            errors.extend(field.one_of(f"{path}[{index}].ipMode", one["ipMode"], _IP_MODES))
        if hostname:
            item = f"{path}[{index}].hostname"
            errors.extend(field.invalid_for(item, hostname, check_dns1123_subdomain(hostname)))
            if parse_ip(hostname) is not None:
                errors.append(field.invalid(item, hostname, "must be a DNS name, not an IP address"))
    return errors
