"""IngressClass (networking.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateIngressClass`, `ValidateIngressClassUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
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

    def validate(self, obj: Field) -> None:
        spec = obj.at("spec")
        controller = spec.at("controller", "")
        controller.must_have_at_most_bytes(_MAX_CONTROLLER_BYTES)
        validate_domain_path(controller)
        spec.at("parameters").must_obey(_validate_parameters)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        obj.at("spec").at("controller", "").must_not_change(at(old, "spec", "controller") or "")


def is_default(ingress_class: JsonObject) -> bool:
    return (at(ingress_class, "metadata", "annotations") or {}).get(_DEFAULT_ANNOTATION) == "true"


def _validate_parameters(parameters: Field) -> None:
    validate_local_reference(parameters)
    scope, namespace = parameters.at("scope", ""), parameters.at("namespace")
    scope.must_be_one_of(_SCOPES)
    if scope.value == "Cluster":
        namespace.must_not_exist("`parameters.scope` is set to 'Cluster'")
    elif scope.value == "Namespace" and namespace.must_exist("`parameters.scope` is set to 'Namespace'"):
        namespace.must_pass(check_dns1123_label)


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
