"""Return of the webhooks: what a balancer has registered is removed, at its end or by `--cleanup`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

from bridgehead.client import ApiClient
from bridgehead.client.errors import Conflict, NotFound
from bridgehead.objects.extensions import DEFINITIONS, WEBHOOK_CONFIGURATIONS
from bridgehead.objects.kinds import ENDPOINT_SLICES, Kind

from .registration import (
    CONVERTED_DEFINITION,
    NAME,
    ca_removal,
    conversion_removal,
    is_own_slice,
    is_registered,
    leads_to,
    own_configuration,
    own_slice_selector,
)

_TRIES = 3  # of a change with which another client's collided


class Registration(NamedTuple):
    """Address at which one balancer answers, and its CA in PEM."""

    address: str
    port: int
    ca: bytes


async def give_back(client: ApiClient, registration: Registration | None = None) -> list[str]:
    """Remove `registration`, or every balancer's, from the cluster; return what was removed. Raises ClientError.

    First the calls of the published manifests' webhooks are led away, then their trust ends.
    """
    removed = []
    slices = await client.list(ENDPOINT_SLICES, label_selector=own_slice_selector())
    for slice_ in slices.items:
        is_meant = registration is None or leads_to(slice_, registration.address, registration.port)
        if is_own_slice(slice_) and is_meant:
            meta = slice_.metadata
            with contextlib.suppress(NotFound, Conflict):  # another balancer has taken it over
                version = meta.resource_version
                await client.delete(ENDPOINT_SLICES, meta.name, meta.namespace, resource_version=version)
                removed.append(f"endpointslice {meta.namespace}/{meta.name}")
    ca = None if registration is None else registration.ca
    for configuration in (await client.list(WEBHOOK_CONFIGURATIONS)).items:
        name = configuration.metadata.name
        if name != NAME:
            if await _remove_trust(client, WEBHOOK_CONFIGURATIONS, name, lambda obj: ca_removal(obj, ca)):
                removed.append(f"the CA in validatingwebhookconfiguration {name}")
        elif registration is None or is_registered(configuration, own_configuration(*registration)):
            version = configuration.metadata.resource_version
            with contextlib.suppress(NotFound, Conflict):
                await client.delete(WEBHOOK_CONFIGURATIONS, name, resource_version=version)
                removed.append(f"validatingwebhookconfiguration {name}")
    if await _remove_trust(client, DEFINITIONS, CONVERTED_DEFINITION, lambda obj: conversion_removal(obj, ca)):
        removed.append(f"the CA in customresourcedefinition {CONVERTED_DEFINITION}")
    return removed


async def _remove_trust(
    client: ApiClient, kind: Kind[Any], name: str, patch_of: Callable[[Any], list[dict[str, Any]]]
) -> bool:
    """Apply the patch that `patch_of` returns for the object; return whether there was one."""
    for attempt in range(_TRIES):
        try:
            patch = patch_of(await client.get(kind, name))
            if not patch:
                return False
            await client.patch(kind, name, "", patch, "json")
        except NotFound:
            return False
        except Conflict:
            if attempt == _TRIES - 1:
                raise
        else:
            return True
    return False
