"""Ingress (networking.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateIngressCreate`, `ValidateIngressStatusUpdate`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import check_ip, parse_ip
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, NONE, at, text_column
from bridgehead.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_path_segment,
    check_port_name,
    check_port_number,
    check_wildcard_dns1123_subdomain,
)

CLASS_ANNOTATION = "kubernetes.io/ingress.class"

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_FORBIDDEN_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_FORBIDDEN_SUFFIXES = ("/..", "/.")
_SHOWN_HOSTS = 3


class IngressStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})
        obj.setdefault("status", {}).setdefault("loadBalancer", {})

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"loadBalancer": {}}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return [*_validate_spec("spec", obj.get("spec", {})), *_validate_status(obj.get("status", {}))]

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        annotation = obj["metadata"].get("annotations", {}).get(CLASS_ANNOTATION)
        wanted = at(obj, "spec", "ingressClassName")
        if annotation is None or wanted is None or annotation == wanted:
            return []
        detail = "must match `ingressClassName` when both are specified"
        return [field.invalid(f"annotations.{CLASS_ANNOTATION}", annotation, detail)]

    def warnings(self, obj: JsonObject) -> list[str]:
        annotated = CLASS_ANNOTATION in obj["metadata"].get("annotations", {})
        if not annotated or at(obj, "spec", "ingressClassName") is not None:
            return []
        return [f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]


def _validate_spec(path: str, spec: JsonObject) -> list[FieldError]:
    errors = []
    rules, backend = spec.get("rules", ()), spec.get("defaultBackend")
    if not rules and backend is None:
        errors.append(field.invalid(path, rules or None, "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        errors.extend(_validate_backend(f"{path}.defaultBackend", backend))
    for index, rule in enumerate(rules):
        errors.extend(_validate_rule(f"{path}.rules[{index}]", rule))
    for index, tls in enumerate(spec.get("tls", ())):
        errors.extend(_validate_tls(f"{path}.tls[{index}]", tls))
    if "ingressClassName" in spec:
        name = spec["ingressClassName"]
        errors.extend(field.invalid_for(f"{path}.ingressClassName", name, check_dns1123_subdomain(name)))
    return errors


def _check_host(host: str) -> list[str]:
    return check_wildcard_dns1123_subdomain(host) if "*" in host else check_dns1123_subdomain(host)


def _validate_rule(path: str, rule: JsonObject) -> list[FieldError]:
    errors = []
    if host := rule.get("host"):
        if parse_ip(host) is not None:
            errors.append(field.invalid(f"{path}.host", host, "must be a DNS name, not an IP address"))
        errors.extend(field.invalid_for(f"{path}.host", host, _check_host(host)))
    if "http" in rule:
        paths = rule["http"].get("paths", ())
        if not paths:
            errors.append(field.required(f"{path}.http.paths"))
        for index, one in enumerate(paths):
            errors.extend(_validate_path(f"{path}.http.paths[{index}]", one))
    return errors


def _validate_path(path: str, one: JsonObject) -> list[FieldError]:
    if "pathType" not in one:
        return [field.required(f"{path}.pathType", "pathType must be specified")]
    kind, value, item = one["pathType"], one.get("path", ""), f"{path}.path"
    errors = []
    match kind:
        case "Exact" | "Prefix":
            if not value.startswith("/"):
                errors.append(field.invalid(item, value, "must be an absolute path"))
            errors.extend(
                field.invalid(item, value, f"must not contain '{sequence}'")
                for sequence in _FORBIDDEN_SEQUENCES
                if sequence in value
            )
            errors.extend(
                field.invalid(item, value, f"cannot end with '{suffix}'")
                for suffix in _FORBIDDEN_SUFFIXES
                if value.endswith(suffix)
            )
        case "ImplementationSpecific":
            if value and not value.startswith("/"):
                errors.append(field.invalid(item, value, "must be an absolute path"))
        case _:
            errors.append(field.not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    return [*errors, *_validate_backend(f"{path}.backend", one.get("backend", {}))]


def _validate_backend(path: str, backend: JsonObject) -> list[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [field.invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return validate_local_reference(f"{path}.resource", resource)
    if service is None:
        return [field.invalid(path, "", "resource or service backend is required")]
    name, port = service.get("name", ""), service.get("port", {})
    errors = (
        field.invalid_for(f"{path}.service.name", name, check_dns1123_label(name))
        if name
        else [field.required(f"{path}.service.name")]
    )
    port_name, number = port.get("name", ""), port.get("number", 0)
    if port_name and number:
        errors.append(field.invalid(path, "", "cannot set both port name & port number"))
    elif port_name:
        errors.extend(field.invalid_for(f"{path}.service.port.name", port_name, check_port_name(port_name)))
    elif number:
        errors.extend(field.invalid_for(f"{path}.service.port.number", number, check_port_number(number)))
    else:
        errors.append(field.required(path, "port name or number is required"))
    return errors


def validate_local_reference(path: str, reference: JsonObject) -> list[FieldError]:
    """Validate a TypedLocalObjectReference."""
    errors = []
    if "apiGroup" in reference:
        group = reference["apiGroup"]
        errors.extend(field.invalid_for(f"{path}.apiGroup", group, check_dns1123_subdomain(group)))
    for name in ("kind", "name"):
        if value := reference.get(name):
            errors.extend(field.invalid_for(f"{path}.{name}", value, check_path_segment(value)))
        else:
            errors.append(field.required(f"{path}.{name}", f"{name} is required"))
    return errors


def _validate_tls(path: str, tls: JsonObject) -> list[FieldError]:
    errors = []
    for index, host in enumerate(tls.get("hosts", ())):
        errors.extend(field.invalid_for(f"{path}.hosts[{index}]", host, _check_host(host)))
    if secret := tls.get("secretName"):
        errors.extend(field.invalid_for(f"{path}.secretName", secret, check_dns1123_subdomain(secret)))
    return errors


def _validate_status(status: JsonObject) -> list[FieldError]:
    errors = []
    for index, one in enumerate(at(status, "loadBalancer", "ingress") or ()):
        path = f"status.loadBalancer.ingress[{index}]"
        if address := one.get("ip"):
            errors.extend(field.invalid_for(f"{path}.ip", address, check_ip(address)))
        if host := one.get("hostname"):
            errors.extend(field.invalid_for(f"{path}.hostname", host, check_dns1123_subdomain(host)))
            if parse_ip(host) is not None:
                errors.append(field.invalid(f"{path}.hostname", host, "must be a DNS name, not an IP address"))
    return errors


def _hosts_cell(ingress: JsonObject, now: float) -> str:
    rules: Sequence[JsonObject] = at(ingress, "spec", "rules") or ()
    shown: list[str] = []
    for rule in rules:
        if len(shown) == _SHOWN_HOSTS:
            return f"{','.join(shown)} + {len(rules) - _SHOWN_HOSTS} more..."
        if host := rule.get("host"):
            shown.append(str(host))
    return ",".join(shown) or "*"


def _address_cell(ingress: JsonObject, now: float) -> str:
    given = at(ingress, "status", "loadBalancer", "ingress") or ()
    return ",".join(sorted({str(one.get("ip") or one.get("hostname") or "") for one in given} - {""}))


def _ports_cell(ingress: JsonObject, now: float) -> str:
    return "80, 443" if at(ingress, "spec", "tls") else "80"


RESOURCE = Resource(
    group="networking.k8s.io",
    version="v1",
    kind="Ingress",
    plural="ingresses",
    singular="ingress",
    namespaced=True,
    short_names=("ing",),
    subresources=("status",),
    strategy=IngressStrategy(),
    columns=(
        NAME,
        text_column("Class", "spec", "ingressClassName", empty=NONE),
        Column("Hosts", _hosts_cell),
        Column("Address", _address_cell),
        Column("Ports", _ports_cell),
        AGE,
    ),
    has_generation=True,
    check_name=check_dns1123_subdomain,
)
