"""The reasons for which a connection may get just these backends: policies, hints, readiness, affinity, source ranges.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridgehead.objects.core import Service
from bridgehead.objects.endpoint_slices import Endpoint, EndpointSlice
from bridgehead.proxy.frontends import Frontend, NodeFacts, Publication

from .expected_path import Expectation

_FAMILIES = {"IPv4": 4, "IPv6": 6}


def explain(
    service: Service | None,
    slices: Sequence[EndpointSlice],
    frontend: Frontend,
    expectation: Expectation,
    facts: NodeFacts,
) -> tuple[str, ...]:
    """Return the reasons, a sentence each. `service`: None if the Frontend is a pod's host port."""
    if service is None:
        return (f"{frontend.key} is a host port",)
    return tuple(_reasons(service, slices, frontend, expectation, facts))


def _reasons(
    service: Service, slices: Sequence[EndpointSlice], frontend: Frontend, expectation: Expectation, facts: NodeFacts
) -> Iterator[str]:
    spec = service.spec
    external = frontend.published_as is not Publication.CLUSTER_IP
    name = "externalTrafficPolicy" if external else "internalTrafficPolicy"
    value = (spec.external_traffic_policy if external else spec.internal_traffic_policy) or "Cluster"
    yield f"{frontend.key} is a {frontend.published_as.value}, so {name} applies: {value}"
    yield expectation.because
    yield from _readiness(slices, frontend, facts)
    if frontend.affinity_seconds is not None:
        yield (
            f"sessionAffinity ClientIP: a client that connects again within {frontend.affinity_seconds} s gets the "
            "backend that it had"
        )
    if frontend.source_ranges is not None:
        yield f"loadBalancerSourceRanges: {', '.join(frontend.source_ranges) or 'no range of this family'}"
    for because in dict.fromkeys(choice.masqueraded_because for choice in expectation.choices):
        if because:
            yield f"the backend sees an address of {facts.name} as its client: {because}"


def _readiness(slices: Sequence[EndpointSlice], frontend: Frontend, facts: NodeFacts) -> Iterator[str]:
    """Explain endpoints that are left out, or used although they are terminating."""
    family = frontend.key.family
    endpoints = [one for each in slices if _FAMILIES.get(each.address_type) == family for one in each.endpoints]
    ready = [one for one in endpoints if one.conditions.is_ready]
    draining = [one for one in endpoints if one.conditions.is_draining]
    yield (
        f"endpoints of IPv{family} in EndpointSlices: {len(endpoints)}, of which {len(ready)} ready, "
        f"{len(draining)} terminating and still serving"
    )
    used = {one.address for one in (*frontend.backends, *(frontend.cluster_backends or ()))}
    if used & {one.first_address for one in draining} and not used & {one.first_address for one in ready}:
        yield "no usable endpoint is ready, so that terminating ones are used"
    elif not frontend.is_local and ready:
        yield from _hints(ready, used, facts)


def _hints(ready: Sequence[Endpoint], used: set[str], facts: NodeFacts) -> Iterator[str]:
    left_out = sum(one.first_address not in used for one in ready)
    hinted = sum(one.hints is not None for one in ready)
    if left_out and hinted == len(ready):
        where = (
            f"node {facts.name}"
            if all(facts.name in one.hinted_nodes for one in ready if one.first_address in used)
            else f"zone {facts.zone}"
        )
        yield f"hints of the EndpointSlices keep connections in {where}: {left_out} ready endpoints are left out"
    elif hinted and not left_out:
        yield f"hints are not followed: {hinted} of {len(ready)} ready endpoints have them, or none is for {facts.name}"
