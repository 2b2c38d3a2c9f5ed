"""What is allowed but hardly meant: the texts of `Warning:` headers, which kubectl prints.

Called by the strategies of Service, Pod and the workloads. Source: Kubernetes `pkg/api/service/warnings.go`,
`pkg/api/pod/warnings.go`.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

from .service_transitions import is_headless

_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"


def warn_of_service(service: JsonObject) -> list[str]:
    """Fields that the type of the Service makes idle."""
    spec = service.get("spec", {})
    warnings = []
    if _HINTS in service.get("metadata", {}).get("annotations", {}):
        warnings.append(f"annotation {_HINTS} is deprecated, please use {_MODE} instead")
    if is_headless(spec):
        idle = [name for name in ("loadBalancerIP", "externalIPs") if spec.get(name)]
        warnings.extend(f"spec.{name} is ignored for headless services" for name in idle)
        if spec.get("sessionAffinity", "None") != "None":
            warnings.append("spec.SessionAffinity is ignored for headless services")
    if spec.get("type") == "ExternalName":
        if spec.get("externalIPs"):
            warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    elif spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    return warnings


def warn_of_pod_spec(path: str, spec: JsonObject) -> list[str]:
    """`path` is where the pod spec stands: `spec`, or `spec.template.spec`."""
    warnings = []
    ports: dict[tuple[int, str], list[tuple[str, JsonObject]]] = {}
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind, ())):
            item = f"{path}.{kind}[{index}]"
            warnings.extend(_warn_of_env(f"{item}.env", container))
            # Ordinary init containers are gone before the others listen.
            if kind == "containers" or container.get("restartPolicy") == "Always":
                warnings.extend(_warn_of_ports(f"{item}.ports", container, ports))
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        warnings.append(
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )
    return warnings


def _warn_of_env(path: str, container: JsonObject) -> list[str]:
    warnings = []
    seen: dict[str, int] = {}
    for index, variable in enumerate(container.get("env", ())):
        name = variable.get("name", "")
        # Setting a variable again on purpose, from its own value, is a known way to extend it.
        if name in seen and f"$({name})" not in variable.get("value", ""):
            warnings.append(
                f'{path}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
            )
        seen.setdefault(name, index)
    return warnings


def _warn_of_ports(
    path: str, container: JsonObject, ports: dict[tuple[int, str], list[tuple[str, JsonObject]]]
) -> list[str]:
    warnings = []
    for index, port in enumerate(container.get("ports", ())):
        item = f"{path}[{index}]"
        same = ports.setdefault((port.get("containerPort", 0), port.get("protocol", "TCP")), [])
        for other_item, other in same:
            if word := _overlap(port, other):
                warnings.append(f"{item}: {word} port definition with {other_item}")
        same.append((item, port))
    return warnings


def _overlap(port: JsonObject, other: JsonObject) -> str:
    """How two definitions of one container port get in each other's way, or ""."""
    host_ports = port.get("hostPort", 0), other.get("hostPort", 0)
    host_ips = port.get("hostIP", ""), other.get("hostIP", "")
    if host_ports[0] == host_ports[1] and host_ips[0] == host_ips[1]:
        return "duplicate"
    if not all(host_ports):
        return "overlapping"
    if host_ports[0] == host_ports[1] and not all(host_ips):
        return "dangerously ambiguous"
    return ""
