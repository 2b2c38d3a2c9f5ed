"""Ingress (networking.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateIngressCreate`, `ValidateIngressStatusUpdate`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared.address_rules import check_dns_name, check_ip, parse_ip
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

    def validate(self, obj: Field) -> None:
        _validate_spec(obj.at("spec"))
        for address in obj.at("status").at("loadBalancer").at("ingress").each():
            address.if_set("ip").must_pass(check_ip)
            address.if_set("hostname").must_pass(check_dns_name)

    def validate_create(self, obj: Field) -> None:
        annotation = obj.at("metadata").get("annotations", {}).get(CLASS_ANNOTATION)
        wanted = obj.at("spec").get("ingressClassName")
        if annotation is not None and wanted is not None and annotation != wanted:
            shown = Field(annotation, f"annotations.{CLASS_ANNOTATION}", obj)  # the path in Kubernetes' error texts
            shown.invalid("must match `ingressClassName` when both are specified")

    def warnings(self, obj: JsonObject) -> list[str]:
        annotated = CLASS_ANNOTATION in obj["metadata"].get("annotations", {})
        if not annotated or at(obj, "spec", "ingressClassName") is not None:
            return []
        return [f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]


def _validate_spec(spec: Field) -> None:
    rules, backend = spec.at("rules"), spec.at("defaultBackend")
    if not rules and backend.value is None:
        spec.showing(None).invalid("either `defaultBackend` or `rules` must be specified")
    backend.must_obey(_validate_backend)
    rules.must_all_obey(_validate_rule)
    for tls in spec.at("tls").each():
        tls.at("hosts").must_all_pass(_check_host)
        tls.if_set("secretName").must_pass(check_dns1123_subdomain)
    spec.at("ingressClassName").must_pass(check_dns1123_subdomain)


def _check_host(host: str) -> list[str]:
    return check_wildcard_dns1123_subdomain(host) if "*" in host else check_dns1123_subdomain(host)


def _validate_rule(rule: Field) -> None:
    if host := rule.at("host"):
        if parse_ip(host.value) is not None:
            host.invalid("must be a DNS name, not an IP address")
        host.must_pass(_check_host)
    paths = rule.at("http").at("paths")
    if "http" in rule.value and paths.must_be_set():
        paths.must_all_obey(_validate_path)


def _validate_path(path: Field) -> None:
    kind, text = path.at("pathType"), path.at("path", "")
    if not kind.must_exist("pathType must be specified"):
        return
    is_pattern = kind.value in ("Exact", "Prefix")
    if kind.must_be_one_of(_PATH_TYPES) and (text or is_pattern) and not text.value.startswith("/"):
        text.invalid("must be an absolute path")
    if is_pattern:
        for sequence in _FORBIDDEN_SEQUENCES:
            if sequence in text.value:
                text.invalid(f"must not contain '{sequence}'")
        for suffix in _FORBIDDEN_SUFFIXES:
            if text.value.endswith(suffix):
                text.invalid(f"cannot end with '{suffix}'")
    _validate_backend(path.at("backend"))


def _validate_backend(backend: Field) -> None:
    resource, service = backend.at("resource"), backend.at("service")
    if resource.value is not None and service.value is not None:
        backend.showing("").invalid("cannot set both resource and service backends")
    elif resource.value is not None:
        validate_local_reference(resource)
    elif service.value is not None:
        service.at("name").must_be_set_and_pass(check_dns1123_label)
        _validate_backend_port(backend, service.at("port"))
    else:
        backend.showing("").invalid("resource or service backend is required")


def _validate_backend_port(backend: Field, port: Field) -> None:
    name, number = port.at("name"), port.at("number")
    if name and number:
        backend.showing("").invalid("cannot set both port name & port number")
    elif name:
        name.must_pass(check_port_name)
    elif number:
        number.must_pass(check_port_number)
    else:
        backend.required("port name or number is required")


def validate_local_reference(reference: Field) -> None:
    """Validate a TypedLocalObjectReference."""
    reference.at("apiGroup").must_pass(check_dns1123_subdomain)
    for name in ("kind", "name"):
        value = reference.at(name)
        if value.must_be_set(f"{name} is required"):
            value.must_pass(check_path_segment)


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
