"""Targets of autoscalers: objects of any kind with the subresource `scale`. Used by `horizontal`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridgehead.client import ApiClient
from bridgehead.client.errors import ApiError
from bridgehead.controllers.served_kinds import find_kinds
from bridgehead.objects.autoscaling import HorizontalPodAutoscaler


class TargetUnknown(Exception):
    """There is no kind of the name that an autoscaler refers to. The message is for Events and conditions."""


@dataclass(frozen=True)
class Scale:
    """The Scale of an object at `path`. `selector` is the label selector of its pods as text."""

    path: str
    body: dict[str, Any]

    @property
    def spec_replicas(self) -> int:
        return int(self.body.get("spec", {}).get("replicas", 0))

    @property
    def status_replicas(self) -> int:
        return int(self.body.get("status", {}).get("replicas", 0))

    @property
    def selector(self) -> str:
        return str(self.body.get("status", {}).get("selector", ""))


class ScaleTargets:
    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def read(self, autoscaler: HorizontalPodAutoscaler) -> Scale:
        """Read the Scale of what an autoscaler scales, in the first version of its kind that has one.

        Raises TargetUnknown and ClientError.
        """
        reference = autoscaler.spec.scale_target_ref
        group = reference.api_version.rpartition("/")[0]
        kinds = await find_kinds(self._client, group, reference.kind)
        if not kinds:
            raise TargetUnknown(f'no matches for kind "{reference.kind}" in group "{group}"')
        first: ApiError | None = None
        for kind in kinds:
            path = kind.scale_path(autoscaler.metadata.namespace, reference.name)
            try:
                return Scale(path, await self._client.request("GET", path))
            except ApiError as error:
                first = first or error
        raise first or TargetUnknown("unrecognized resource")

    async def write(self, scale: Scale, replicas: int) -> None:
        """Set the number of replicas, if nobody has changed the object since it was read. Raises ClientError."""
        body = {**scale.body, "spec": {**scale.body.get("spec", {}), "replicas": replicas}}
        await self._client.request("PUT", scale.path, json=body)
