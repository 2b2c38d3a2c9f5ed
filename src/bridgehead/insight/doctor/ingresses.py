"""Causes in Ingresses: they lead to no Service, to no port, or have no class.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.core import ServicePort
from bridgehead.objects.meta import ObjectKey

from .near_names import nearest
from .subjects import Facts, kubectl, make_finding, mapping, names_of, objects_in

_OLD_CLASS = "kubernetes.io/ingress.class"
_USE_ANNOTATION = "use-annotation"  # the port of backends that are an action of the AWS load balancer controller
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"


def check_ingresses(facts: Facts) -> Iterator[Finding]:
    """Yield the problems of each Ingress."""
    cluster = facts.cluster
    if not facts.has_seen_all("ingresses", "services"):
        return
    asked = {target.key for target in facts.targets}
    for ingress in cluster.ingresses:
        metadata, spec = mapping(ingress.get("metadata")), mapping(ingress.get("spec"))
        key = ObjectKey(str(metadata.get("namespace", "")), str(metadata.get("name", "")))
        backends = list(_backends(spec))
        if asked and not any(ObjectKey(key.namespace, name) in asked for name, _, _ in backends):
            continue
        if not _is_served(ingress):
            yield from _class(key, metadata, spec, facts)
        seen: set[tuple[str, str]] = set()
        for name, port, where in backends:
            if (name, str(port)) not in seen:
                seen.add((name, str(port)))
                yield from _backend(key, name, port, where, facts)


def _is_served(ingress: Mapping[str, Any]) -> bool:
    """Whether a controller has published an address: some serve classes without an object, and no class at all."""
    return bool(objects_in(mapping(mapping(ingress.get("status")).get("loadBalancer")).get("ingress")))


def _backend(key: ObjectKey, name: str, port: int | str | None, where: str, facts: Facts) -> Iterator[Finding]:
    services = facts.cluster.services
    service = services.get(ObjectKey(key.namespace, name))
    edit = kubectl(key.namespace, "edit", "ingress", key.name)
    if service is None:
        here = [other.name for other in services if other.namespace == key.namespace]
        near = nearest(name, here)
        hint = f'; "{near}" was meant, perhaps.' if near else "."
        yield make_finding(
            "IngressToMissingService",
            f"ingress/{key}",
            f'The Ingress {key} leads to Service "{name}", which does not exist in its namespace{hint}',
            fix=edit,
            evidence=[where, f"Services there: {names_of(sorted(here)) or 'none'}"],
        )
    elif port is not None and not any(port in (each.port, each.name) for each in service.spec.ports):
        yield make_finding(
            "IngressToMissingPort",
            f"ingress/{key}",
            f"The Ingress {key} leads to port {port} of Service {name}, which it does not have.",
            fix=edit,
            evidence=[
                where,
                f"its ports: {names_of(_describe(each) for each in service.spec.ports)}",
            ],
        )


def _describe(port: ServicePort) -> str:
    return f"{port.port} ({port.name})" if port.name else str(port.port)


def _class(key: ObjectKey, metadata: Mapping[str, Any], spec: Mapping[str, Any], facts: Facts) -> Iterator[Finding]:
    cluster = facts.cluster
    if not cluster.has_seen("ingressclasses"):
        return
    classes = {str(mapping(each.get("metadata")).get("name", "")): each for each in cluster.ingress_classes}
    name = spec.get("ingressClassName")
    if isinstance(name, str) and name and name not in classes:
        near = nearest(name, classes)
        hint = f'; "{near}" was meant, perhaps.' if near else "."
        yield make_finding(
            "IngressClassMissing",
            f"ingress/{key}",
            f'The Ingress {key} has the class "{name}", which does not exist: no controller serves it{hint}',
            fix=kubectl("", "get", "ingressclasses"),
            evidence=[f"classes: {names_of(sorted(classes)) or 'none'}"],
        )
    if name or _OLD_CLASS in mapping(metadata.get("annotations")):
        return
    defaults = [
        one for one, each in classes.items() if _is_default(mapping(mapping(each.get("metadata")).get("annotations")))
    ]
    if not defaults:
        yield make_finding(
            "IngressWithoutClass",
            f"ingress/{key}",
            f"The Ingress {key} has no class, and no IngressClass is the default one.",
            fix=kubectl(
                key.namespace,
                "patch",
                "ingress",
                key.name,
                "-p",
                f'{{"spec":{{"ingressClassName":"{next(iter(sorted(classes)), "CLASS")}"}}}}',
            ),
            evidence=[f"classes: {names_of(sorted(classes)) or 'none'}"],
            severity=Severity.DEGRADED,
        )


def _is_default(annotations: Mapping[str, Any]) -> bool:
    return annotations.get(_DEFAULT_CLASS) == "true"


def _backends(spec: Mapping[str, Any]) -> Iterator[tuple[str, int | str | None, str]]:
    """Yield the Service, port and rule of each backend; backends that are resources are left out."""
    if found := _service(mapping(spec.get("defaultBackend"))):
        yield *found, "default backend"
    for rule in objects_in(spec.get("rules")):
        for path in objects_in(mapping(rule.get("http")).get("paths")):
            if found := _service(mapping(path.get("backend"))):
                yield *found, f"rule {rule.get('host') or '*'}{path.get('path') or '/'}"


def _service(backend: Mapping[str, Any]) -> tuple[str, int | str | None] | None:
    service = mapping(backend.get("service"))
    name, port = service.get("name"), mapping(service.get("port"))
    if not isinstance(name, str) or not name:
        return None
    number = port.get("name") or port.get("number")
    if number == _USE_ANNOTATION:
        return None
    return name, number if isinstance(number, int | str) else None
