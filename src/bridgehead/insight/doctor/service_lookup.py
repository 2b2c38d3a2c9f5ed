"""Causes for which a Service that somebody asked about does not exist, or does not have the port.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.insight.facts.cluster_state import OTHER_NAMESPACES
from bridgehead.insight.findings import Finding, Severity

from .near_names import nearest
from .subjects import Facts, ServiceView, Target, kubectl, make_finding, names_of


def check_target(target: Target, facts: Facts) -> Iterator[Finding]:
    """Yield why the Service with the name that somebody wrote is not there."""
    key, cluster = target.key, facts.cluster
    if key in cluster.services or not cluster.has_seen("services"):
        return
    subject = f"service/{key}"
    here = [known.name for known in cluster.services if known.namespace == key.namespace]
    namespaces = sorted(known.namespace for known in cluster.services if known.name == key.name)
    if cluster.has_seen("namespaces") and cluster.namespaces and key.namespace not in cluster.namespaces:
        near = nearest(key.namespace, cluster.namespaces)
        meant = near or (namespaces[0] if namespaces else "")
        yield make_finding(
            "NamespaceNotFound",
            subject,
            f'There is no namespace "{key.namespace}"' + (f'; "{meant}" was meant, perhaps.' if meant else "."),
            fix=kubectl(meant, "get", "service", key.name) if meant else kubectl("", "get", "namespaces"),
            evidence=[f"namespaces: {names_of(sorted(cluster.namespaces))}"],
        )
    elif namespaces:
        yield make_finding(
            "ServiceInOtherNamespace",
            subject,
            f'There is no Service "{key.name}" in namespace "{key.namespace}", but one in {names_of(namespaces)}.',
            fix=f"use the name {key.name}.{namespaces[0]}, or -n {namespaces[0]} with kubectl",
            evidence=[
                f'a short name is resolved in the namespace of the client\'s pod: "{key.name}" from a pod in '
                f'"{key.namespace}" is {key.name}.{key.namespace}.svc.{cluster.domain}'
            ],
        )
    elif near := nearest(key.name, here):
        yield make_finding(
            "ServiceNameMisspelled",
            subject,
            f'There is no Service "{key.name}" in namespace "{key.namespace}", but one with the name "{near}".',
            fix=kubectl(key.namespace, "get", "service", near),
            evidence=[f"Services there: {names_of(sorted(here))}"],
        )
    else:
        yield make_finding(
            "ServiceNotFound",
            subject,
            f'There is no Service "{key.name}" in namespace "{key.namespace}"'
            + (", nor in another one." if cluster.has_seen("services", OTHER_NAMESPACES) else "."),
            fix=kubectl(key.namespace, "expose", "deployment", "DEPLOYMENT", f"--name={key.name}", "--port=80"),
            evidence=[f"Services there: {names_of(sorted(here)) or 'none'}"],
        )


def check_asked_port(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield a finding if somebody asked about a port that the Service does not have."""
    for target in facts.targets:
        ports = view.spec.ports
        if target.key != view.key or not target.port or target.port in [port.port for port in ports]:
            continue
        if view.is_external_name or (view.is_headless and target.port in [port.target_port for port in ports]):
            continue
        similar = next((port for port in ports if target.port in (port.target_port, port.node_port)), None)
        which = "targetPort" if similar is not None and similar.target_port == target.port else "nodePort"
        text = f"The Service has no port {target.port}; its ports are {names_of(str(port.port) for port in ports)}."
        if similar is not None:
            text = f"{target.port} is the {which} of the Service, whose port is {similar.port}."
        yield view.finding(
            "PortNotInService",
            text,
            fix=f"connect to port {similar.port if similar is not None else ports[0].port}" if ports else "",
            evidence=[f"port {port.name or port.port}: {port.port}/{port.protocol}" for port in ports],
        )


def check_deletion(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the Service is being deleted for longer than a moment."""
    meta = view.service.metadata
    if meta.deletion_timestamp is None or facts.age_of(meta.deletion_timestamp) < 30:
        return
    waiting = f" It waits for the finalizers {names_of(meta.finalizers)}." if meta.finalizers else ""
    yield view.finding(
        "ServiceTerminating",
        f"The Service is being deleted since {meta.deletion_timestamp}.{waiting}",
        fix="start the controller that removes the finalizer, then create the Service again",
        severity=Severity.DEGRADED,
    )
