"""IngressClass (networking.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateIngressClass`, `ValidateIngressClassUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, NONE, at, text_column
from bridgehead.apiserver.resources.shared.domain_paths import validate_domain_path
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .ingresses import validate_local_reference

_DEFAULT_ANNOTATION = "ingressclass.kubernetes.io/is-default-class"

_MAX_CONTROLLER_BYTES = 250
_SCOPES = ("Cluster", "Namespace")


class IngressClassStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        parameters = obj.setdefault("spec", {}).get("parameters")
        if parameters is not None:
            parameters.setdefault("scope", "Cluster")

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        errors = _validate_controller("spec.controller", spec.get("controller", ""))
        if "parameters" in spec:
            errors.extend(_validate_parameters("spec.parameters", spec["parameters"]))
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        controller = at(obj, "spec", "controller") or ""
        if controller == (at(old, "spec", "controller") or ""):
            return []
        return [field.invalid("spec.controller", controller, field.IMMUTABLE)]


def is_default(ingress_class: JsonObject) -> bool:
    return (at(ingress_class, "metadata", "annotations") or {}).get(_DEFAULT_ANNOTATION) == "true"


def _validate_controller(path: str, controller: str) -> list[FieldError]:
    errors = []
    if len(controller.encode()) > _MAX_CONTROLLER_BYTES:
        errors.append(field.too_long(path, _MAX_CONTROLLER_BYTES))
    return [*errors, *field.errors_below(path, validate_domain_path, controller)]


def _validate_parameters(path: str, parameters: JsonObject) -> list[FieldError]:
    errors = validate_local_reference(path, parameters)
    scope, namespace = parameters.get("scope", ""), parameters.get("namespace")
    if scope not in _SCOPES:
        errors.append(field.not_supported(f"{path}.scope", scope, _SCOPES))
    elif scope == "Namespace":
        if namespace is None:
            errors.append(field.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
        else:
            errors.extend(field.invalid_for(f"{path}.namespace", namespace, check_dns1123_label(namespace)))
    elif namespace is not None:
        errors.append(field.forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    return errors


def _parameters_cell(ingress_class: JsonObject, now: float) -> str:
    parameters = at(ingress_class, "spec", "parameters")
    if parameters is None:
        return NONE
    group = f".{parameters['apiGroup']}" if "apiGroup" in parameters else ""
    return f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"


RESOURCE = Resource(
    group="networking.k8s.io",
    version="v1",
    kind="IngressClass",
    plural="ingressclasses",
    singular="ingressclass",
    namespaced=False,
    strategy=IngressClassStrategy(),
    columns=(
        NAME,
        text_column("Controller", "spec", "controller"),
        Column("Parameters", _parameters_cell),
        AGE,
    ),
    has_generation=True,
    check_name=check_dns1123_subdomain,
)
