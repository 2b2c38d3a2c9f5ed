"""Causes in EndpointSlices and Endpoints: behind the pods, not mirrored, without the ports, or foreign.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.controllers.endpoints import mirroring, slice_endpoints
from bridgehead.controllers.endpoints.endpoint_pods import families_of, pod_ips
from bridgehead.insight.findings import Finding, Severity
from bridgehead.insight.programmed import count_pending
from bridgehead.objects.addresses import ip_family
from bridgehead.objects.endpoint_slices import MANAGED_BY_LABEL, EndpointSlice

from .subjects import Facts, ServiceView, names_of


def check_slices(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield the differences between the Service's pods or Endpoints and its slices."""
    if view.is_external_name or not view.sees_slices:
        return
    if view.spec.selector:
        yield from _families_without_pods(view)
        yield from _behind_pods(view, facts)
        yield from _foreign(view, facts)
    else:
        yield from _by_hand(view, facts)


def _behind_pods(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    cluster = facts.cluster
    if not view.sees_pods or not cluster.has_seen("nodes"):
        return
    managed = [each for each in view.slices if each.metadata.labels.get(MANAGED_BY_LABEL) == slice_endpoints.MANAGER]
    others = [each for each in view.slices if each not in managed]
    if not managed and any(each.endpoints for each in others):
        return  # another controller writes the slices of this Service
    pending = count_pending(view.service, view.pods, None, view.slices, cluster.nodes.values())
    if not pending:
        return
    written = {address for each in managed for endpoint in each.endpoints for address in endpoint.addresses}
    wanted = {ip for pod in view.ready_pods for ip in pod_ips(pod)}
    gone = sorted(address for address in written if address not in {ip for pod in view.pods for ip in pod_ips(pod)})
    ready = {
        address
        for each in managed
        for endpoint in each.endpoints
        if endpoint.conditions.is_ready
        for address in endpoint.addresses
    }
    is_broken = bool(wanted) and not wanted & ready
    if not managed and not wanted:
        return  # no slice and no endpoint: nothing is lost
    yield view.finding(
        "EndpointSlicesBehind",
        f"The EndpointSlices do not match the pods: {pending} endpoints are to be added or removed. Their controller "
        "does not run, or may not write them.",
        fix="start kube-controller-manager (`bridgehead controllers`), whose log has the reason",
        evidence=[
            f"ready pods: {names_of(sorted(wanted)) or 'none'}",
            f"ready in slices: {names_of(sorted(ready)) or 'none'}",
            *([f"in slices, of no pod: {names_of(gone)}"] if gone else []),
            *(
                f"{e.reason}: {e.message}"
                for e in facts.events_of("Service", view.key, "FailedToUpdateEndpointSlices")[:2]
            ),
        ],
        severity=Severity.BROKEN if is_broken else Severity.DEGRADED,
    )


def _families_without_pods(view: ServiceView) -> Iterator[Finding]:
    if not view.sees_pods or not view.ready_pods or (view.is_headless and not view.spec.ip_families):
        return
    wanted = families_of(view.service)
    found = {ip_family(ip) for pod in view.ready_pods for ip in pod_ips(pod)}
    missing = [family for family in wanted if family not in found]
    if not missing:
        return
    yield view.finding(
        "FamilyWithoutPods",
        f"The Service has {' and '.join(wanted)}, but no pod has an {missing[0]} address, so that its {missing[0]} "
        "address leads nowhere.",
        fix=f"make the cluster's pods dual-stack, or create the Service without {missing[0]} in spec.ipFamilies",
        evidence=[f"addresses of pods: {names_of(ip for pod in view.ready_pods for ip in pod_ips(pod))}"],
        severity=Severity.BROKEN if len(missing) == len(wanted) else Severity.DEGRADED,
    )


def _foreign(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield slices without a manager that add addresses of nobody to a Service with a selector."""
    cluster = facts.cluster
    if not view.sees_pods or not facts.is_whole or not cluster.has_seen("nodes"):
        return
    for slice_ in view.slices:
        if MANAGED_BY_LABEL in slice_.metadata.labels or slice_.address_type == "FQDN":  # proxies ignore host names
            continue
        unknown = [
            address
            for endpoint in slice_.endpoints
            if endpoint.conditions.is_ready
            for address in endpoint.addresses
            if address not in cluster.pods_by_address and address not in cluster.nodes_by_address
        ]
        if unknown:
            yield view.finding(
                "ForeignEndpointSlice",
                f"The EndpointSlice {slice_.metadata.name}, which no controller manages, sends connections to "
                f"{names_of(unknown)}: no pod and no node has these addresses.",
                fix=view.kubectl("delete", "endpointslice", slice_.metadata.name),
                evidence=[f"ready endpoints in all slices: {len(view.ready_endpoints)}"],
                severity=Severity.DEGRADED,
            )


# --- Services without a selector ----------------------------------------------------------------------------


def _by_hand(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    if view.is_placeholder:
        return
    cluster = facts.cluster
    endpoints = cluster.endpoints.get(view.key) if cluster.has_seen("endpoints") else None
    if endpoints is not None:
        mirrored = mirroring.is_mirrored(endpoints, view.service)
        pending = count_pending(view.service, (), endpoints, view.slices, ()) if mirrored else 0
        addresses = [each.ip for subset in endpoints.subsets for each in subset.addresses]
        unready = [each.ip for subset in endpoints.subsets for each in subset.not_ready_addresses]
        if pending:
            yield view.finding(
                "EndpointsNotMirrored",
                f"The Endpoints that somebody wrote are not in EndpointSlices, which proxies read: {pending} "
                "endpoints differ.",
                fix="start kube-controller-manager (`bridgehead controllers`), whose log has the reason",
                evidence=[f"in Endpoints: {names_of(addresses) or 'none'}", f"in slices: {_addresses(view) or 'none'}"],
                severity=Severity.DEGRADED if set(addresses) & _ready_addresses(view) else Severity.BROKEN,
            )
        elif not mirrored and addresses and not view.endpoints:
            yield view.finding(
                "EndpointsNotMirrored",
                "The Endpoints that somebody wrote have a label or annotation that excludes them from EndpointSlices, "
                "which proxies read.",
                fix=view.kubectl("label", "endpoints", view.key.name, f"{mirroring.SKIP_LABEL}-"),
                evidence=[f"in Endpoints: {names_of(addresses)}"],
            )
        elif not addresses and not view.ready_endpoints:
            yield view.finding(
                "EndpointsNotReady",
                "The Service has no selector, and its Endpoints have no ready address.",
                fix=view.kubectl("edit", "endpoints", view.key.name),
                evidence=[f"notReadyAddresses: {names_of(unready) or 'none'}"],
            )
    elif view.endpoints and not view.ready_endpoints:
        yield view.finding(
            "EndpointsNotReady",
            "The Service has no selector, and its EndpointSlices have no ready endpoint.",
            fix=view.kubectl("edit", "endpointslice", view.slices[0].metadata.name),
            evidence=[f"endpoints that are not ready: {_addresses(view)}"],
        )
    yield from _ports_without_endpoints(view)
    yield from _cluster_ips_as_endpoints(view, facts)


def _ports_without_endpoints(view: ServiceView) -> Iterator[Finding]:
    """Yield a finding if the slices have no port with the name of the Service's: proxies then have no endpoint."""
    with_endpoints = [slice_ for slice_ in view.slices if slice_.endpoints]
    if view.is_headless or not with_endpoints:
        return
    keys = {port.key for slice_ in with_endpoints for port in slice_.ports or ()}
    missing = [port for port in view.spec.ports if (port.name, port.protocol) not in keys]
    if not missing:
        return
    names = names_of(f'"{name}"/{protocol}' for name, protocol in sorted(keys)) or "none"
    yield view.finding(
        "EndpointPortMismatch",
        f'The port "{missing[0].name}"/{missing[0].protocol} of the Service is not in its EndpointSlices: the name and '
        f"protocol must be equal. They have {names}.",
        fix=view.kubectl("edit", "endpoints", view.key.name)
        if _is_mirrored(with_endpoints[0])
        else view.kubectl("edit", "endpointslice", with_endpoints[0].metadata.name),
        evidence=[
            f"ports of the Service: {names_of(f'{port.name or port.port}/{port.protocol}' for port in view.spec.ports)}"
        ],
        severity=Severity.BROKEN if len(missing) == len(view.spec.ports) else Severity.DEGRADED,
    )


def _cluster_ips_as_endpoints(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    if not facts.cluster.has_seen("services"):
        return
    found = [address for address in sorted(_ready_addresses(view)) if address in facts.services_by_cluster_ip]
    if not found:
        return
    other = facts.services_by_cluster_ip[found[0]][0]
    yield view.finding(
        "EndpointIsClusterIP",
        f"The endpoint {found[0]} is the cluster IP of Service {other.key}: the kernel translates a connection once, "
        "so that nothing answers there.",
        fix=f"use type ExternalName with {other.key.name}.{other.key.namespace}.svc.{facts.cluster.domain}, or the "
        f"selector of {other.key}",
        severity=Severity.BROKEN if len(found) == len(_ready_addresses(view)) else Severity.DEGRADED,
    )


def _is_mirrored(slice_: EndpointSlice) -> bool:
    return slice_.metadata.labels.get(MANAGED_BY_LABEL) == mirroring.MANAGER


def _ready_addresses(view: ServiceView) -> set[str]:
    return {address for endpoint in view.ready_endpoints for address in endpoint.addresses}


def _addresses(view: ServiceView) -> str:
    return names_of(address for endpoint in view.endpoints for address in endpoint.addresses)
