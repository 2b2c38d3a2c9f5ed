"""The webhook of the balancer's objects, answered by the controller."""

from __future__ import annotations

from typing import Any

from bridgehead.balancer.admission.change_validation import judge_change
from bridgehead.balancer.admission.registrar import Registrar
from bridgehead.balancer.admission.registration import ADOPTED_SERVICES
from bridgehead.balancer.admission.server_identity import make_identity
from bridgehead.balancer.admission.webhook_server import serving
from bridgehead.balancer.configuration_watch import ConfigurationWatch
from bridgehead.client import ApiClient

from .other_balancer_watch import OtherBalancerWatch

Json = dict[str, Any]


async def answer_reviews(
    client: ApiClient, address: str, port: int, watch: ConfigurationWatch, presence: OtherBalancerWatch
) -> None:
    """Serve at `address`, where the API server reaches this process, until cancelled. Raises OSError."""
    identity = make_identity([address, *(f"{service.name}.{service.namespace}.svc" for service in ADOPTED_SERVICES)])

    def judge(group: str, plural: str, operation: str, old: Json | None, new: Json | None) -> str:
        return judge_change(watch.objects(), group, plural, operation, old, new)

    async with serving(address, port, identity, judge, _convert) as bound:
        registrar = Registrar(client, address, bound, identity.ca, lambda: presence.stand_ins)
        end = presence.on_change(registrar.wake)
        try:
            await registrar.run()
        finally:
            end()


def _convert(obj: Json, version: str) -> Json:
    """Convert a BGPPeer: the fields of v1beta1 are fields of v1beta2."""
    return obj | {"apiVersion": version}
