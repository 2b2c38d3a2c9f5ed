"""Removal of all that balancers and speakers have written into a cluster: `bridgehead balancer --cleanup`.

For clusters in which none of them runs any more, ended or killed. Objects that people configured stay, and so do
definitions that have objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from bridgehead.balancer.admission.deregistration import give_back
from bridgehead.balancer.definitions.install import FILES, INSTALLED_ANNOTATION
from bridgehead.balancer.heartbeat_key import LEASE_NAME, SECRET_NAME
from bridgehead.balancer.other_balancers import LABEL_SELECTORS, find_other
from bridgehead.client import ApiClient
from bridgehead.client.errors import Conflict, NotFound
from bridgehead.objects import metallb, openelb
from bridgehead.objects.extensions import DEFINITIONS
from bridgehead.objects.kinds import LEASES, PODS, SECRETS, SERVICES, Kind
from bridgehead.objects.meta import ObjectKey

from . import written_fields

Json = dict[str, Any]
PatchOf = Callable[[Json], Json | None]

_PAGE: Final = 500  # objects of one list request
_TRIES: Final = 5  # of a change with which others collide
_STATUSES: Final[tuple[Kind[Any], ...]] = (metallb.IP_ADDRESS_POOLS, openelb.EIPS, openelb.BGP_CONFS, openelb.BGP_PEERS)
_REPORTS: Final[tuple[Kind[Any], ...]] = (
    metallb.SERVICE_L2_STATUSES,
    metallb.SERVICE_BGP_STATUSES,
    metallb.CONFIGURATION_STATES,
)


async def clean_up(
    client: ApiClient, own_namespace: str, lb_class: str = "", *, keeps_definitions: bool = False
) -> list[str]:
    """Remove the traces of balancers; return what was removed, a line each. Raises ClientError.

    `own_namespace`: of the Secret and the Lease. `lb_class`: addresses stay while a MetalLB or OpenELB of that class
    runs, which has taken them over.
    """
    removed = await give_back(client)
    removed += await release_objects(client, keeps_addresses=await _has_other(client, lb_class))
    for kind in _STATUSES:
        removed += await _patch_all(client, kind, written_fields.status_removal, "status")
    for kind in _REPORTS:
        async for obj in _items(client, kind):
            if written_fields.is_written(obj):
                removed += await _delete(client, kind, obj["metadata"]["name"], obj["metadata"]["namespace"])
    removed += await _delete(client, SECRETS, SECRET_NAME, own_namespace)
    removed += await _delete(client, LEASES, LEASE_NAME, own_namespace)
    if not keeps_definitions:
        removed += await _remove_definitions(client)
    return removed


async def release_objects(client: ApiClient, *, keeps_addresses: bool) -> list[str]:
    """Remove what balancers have written into Services and Eips' metadata; return what was removed.

    `keeps_addresses`: the addresses of Services stay. Raises ClientError.
    """

    def status_patch(service: Json) -> Json | None:
        return written_fields.service_status_patch(service, keeps_address=keeps_addresses)

    removed = await _patch_all(client, SERVICES, status_patch, "status")
    removed += await _patch_all(client, SERVICES, written_fields.service_metadata_patch)
    removed += await _patch_all(client, openelb.EIPS, written_fields.eip_metadata_patch)
    return removed


async def _has_other(client: ApiClient, lb_class: str) -> bool:
    found = [pod for selector in LABEL_SELECTORS for pod in (await client.list(PODS, label_selector=selector)).items]
    return find_other(found, lb_class) is not None


async def _remove_definitions(client: ApiClient) -> list[str]:
    """Delete the definitions that the controller has installed and that have no objects; name the others."""
    removed = []
    for name in (name for names in FILES.values() for name in names):
        try:
            definition = await client.request("GET", DEFINITIONS.path("", name))
        except NotFound:
            continue
        if INSTALLED_ANNOTATION not in (definition["metadata"].get("annotations") or {}):
            continue
        version = next(one["name"] for one in definition["spec"]["versions"] if one["served"])
        try:
            path = f"/apis/{definition['spec']['group']}/{version}/{definition['spec']['names']['plural']}"
            has_objects = bool((await client.request("GET", path, params={"limit": "1"}))["items"])
        except NotFound:
            has_objects = False
        if has_objects:
            removed.append(f"left: customresourcedefinition {name}, which has objects")
        else:
            removed += await _delete(client, DEFINITIONS, name)
    return removed


async def _patch_all(client: ApiClient, kind: Kind[Any], patch_of: PatchOf, subresource: str = "") -> list[str]:
    removed = []
    async for obj in _items(client, kind):
        key = ObjectKey(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        if await _patch(client, kind, key, obj, patch_of, subresource):
            what = subresource or "finalizer and labels"
            removed.append(f"{what} of {kind.name.lower()} {key}")
    return removed


async def _patch(
    client: ApiClient, kind: Kind[Any], key: ObjectKey, obj: Json, patch_of: PatchOf, subresource: str
) -> bool:
    """Patch one object, read anew after each conflict; return whether there was anything to remove."""
    for attempt in range(_TRIES):
        patch = patch_of(obj)
        if patch is None:
            return False
        try:
            await client.patch(kind, key.name, key.namespace, patch, subresource=subresource)
        except NotFound:
            return False
        except Conflict:
            if attempt == _TRIES - 1:
                raise
            obj = await client.request("GET", kind.path(key.namespace, key.name))
        else:
            return True
    return False


async def _items(client: ApiClient, kind: Kind[Any]) -> AsyncIterator[Json]:
    """Yield all objects of a kind as JSON; none if the API server does not serve it."""
    params = {"limit": str(_PAGE)}
    while True:
        try:
            page = await client.request("GET", kind.path(), params=params)
        except NotFound:
            return
        for item in page["items"]:
            yield item
        following = page["metadata"].get("continue")
        if not following:
            return
        params["continue"] = following


async def _delete(client: ApiClient, kind: Kind[Any], name: str, namespace: str = "") -> list[str]:
    try:
        await client.delete(kind, name, namespace)
    except NotFound:
        return []
    return [f"{kind.name.lower()} {ObjectKey(namespace, name)}"]
