"""Warnings about a pod spec: values that are valid but probably not intended. kubectl prints them.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/api/pod/warnings.go`.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject


def warn_of_pod_spec(path: str, spec: JsonObject) -> list[str]:
    """Return warnings about the pod spec at `path`: `spec` or `spec.template.spec`."""
    warnings = []
    ports: dict[tuple[int, str], list[tuple[str, JsonObject]]] = {}
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind, ())):
            item = f"{path}.{kind}[{index}]"
            warnings.extend(_warn_of_env(f"{item}.env", container))
            # Init containers end before other containers listen, but sidecars do not.
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
        # A redefinition that uses the variable's old value extends it on purpose.
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
            if conflict := _overlap(port, other):
                warnings.append(f"{item}: {conflict} port definition with {other_item}")
        same.append((item, port))
    return warnings


def _overlap(port: JsonObject, other: JsonObject) -> str:
    """Return the kind of conflict between two definitions of one container port, or ""."""
    host_ports = port.get("hostPort", 0), other.get("hostPort", 0)
    host_ips = port.get("hostIP", ""), other.get("hostIP", "")
    if host_ports[0] == host_ports[1] and host_ips[0] == host_ips[1]:
        return "duplicate"
    if not all(host_ports):
        return "overlapping"
    if host_ports[0] == host_ports[1] and not all(host_ips):
        return "dangerously ambiguous"
    return ""
