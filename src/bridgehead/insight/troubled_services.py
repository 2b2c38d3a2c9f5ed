"""Services in trouble, as their Events and their status have it: what a cluster knows without looking into kernels."""

from __future__ import annotations

from bridgehead.client import ApiClient
from bridgehead.controllers.endpoints.service_troubles import COMPONENT, waits_for_load_balancer
from bridgehead.objects.kinds import EVENTS, SERVICES
from bridgehead.objects.meta import ObjectKey


async def find_troubled_services(client: ApiClient) -> list[ObjectKey]:
    """Return the Services with an Event of the service-warnings controller, or that wait for a load balancer; sorted.

    Raises ClientError.
    """
    events = (await client.list(EVENTS, field_selector=f"source={COMPONENT}")).items
    found = {ObjectKey(event.involved_object.namespace, event.involved_object.name) for event in events}
    services = (await client.list(SERVICES, field_selector="spec.type=LoadBalancer")).items
    found.update(service.key for service in services if waits_for_load_balancer(service))
    return sorted(found)
