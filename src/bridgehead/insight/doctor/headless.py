"""Causes in headless Services and the StatefulSets that need one.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.controllers.endpoints.endpoint_pods import is_headless
from bridgehead.insight.facts.network_state import Section
from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.meta import ObjectKey

from .near_names import nearest
from .subjects import Facts, ServiceView, kubectl, make_finding


def check_headless_ports(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield ports that differ from their targetPort: no proxy translates them for a headless Service."""
    if not view.is_headless or view.is_external_name or not view.spec.selector:
        return
    for port in view.spec.ports:
        target = port.target_port
        if not isinstance(target, int) or target in (0, port.port):
            continue
        states = [facts.pod_listeners[pod.key] for pod in view.ready_pods if pod.key in facts.pod_listeners]
        seen = [state for state in states if Section.LISTENERS not in state.unseen]
        if any(each.port == port.port for state in seen for each in state.listeners):
            continue
        yield view.finding(
            "HeadlessPortIgnored",
            f"The Service is headless, so that nothing translates port {port.port} to {target}: clients connect to the "
            f"pods themselves, and have to use port {target}.",
            fix=f"connect to port {target}, or give the Service a cluster IP (create it anew without clusterIP: None)",
            severity=Severity.DEGRADED if seen else Severity.NOTICE,
        )
        return


def check_stateful_sets(facts: Facts) -> Iterator[Finding]:
    """Yield StatefulSets whose Service is missing or not headless: their pods then have no names."""
    cluster = facts.cluster
    if not facts.has_seen_all("statefulsets", "services"):
        return
    asked = {target.key for target in facts.targets}
    for namespace, workloads in sorted(facts.selectable_workloads.items()):
        for workload in workloads:
            key = ObjectKey(namespace, workload.service_name)
            if workload.kind != "StatefulSet" or not workload.service_name or (asked and key not in asked):
                continue
            service = cluster.services.get(key)
            subject = f"statefulset/{workload.key}"
            if service is None:
                near = nearest(key.name, [other.name for other in cluster.services if other.namespace == namespace])
                hint = f'; "{near}" was meant, perhaps.' if near else "."
                yield make_finding(
                    "StatefulSetServiceMissing",
                    subject,
                    f'The StatefulSet {workload.key} names the Service "{key.name}", which does not exist: its pods '
                    "have "
                    f"no names in the DNS{hint}",
                    fix=kubectl(namespace, "create", "service", "clusterip", key.name, "--clusterip=None"),
                    severity=Severity.DEGRADED,
                )
            elif not is_headless(service):
                yield make_finding(
                    "StatefulSetServiceNotHeadless",
                    subject,
                    f'The Service "{key.name}" of the StatefulSet {workload.key} is not headless: the names of single '
                    "pods still resolve, but the Service's own name leads to one address.",
                    fix=f"create the Service {key} anew with clusterIP: None",
                    severity=Severity.NOTICE,
                )
