"""Bringing over of a state whose cluster DNS has the names of earlier versions.

They called ConfigMap, Deployment and ServiceAccount `bridgehead-dns`; now they have the names that every cluster has
(docs/decisions/0061-names-of-the-dns.md). The user's Corefile and number of replicas are kept.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Final

from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, NotFound
from bridgehead.objects.apps import Deployment
from bridgehead.objects.core import ConfigMap
from bridgehead.objects.kinds import CONFIG_MAPS, DEPLOYMENTS, SERVICE_ACCOUNTS, SERVICES, Kind

log = logging.getLogger(__name__)

DNS: Final = "coredns"
EARLIER_DNS: Final = "bridgehead-dns"
_EARLIER_ROLE: Final = "bridgehead:dns"
_NAMESPACE: Final = "kube-system"
_NAME_LABEL: Final = "kubernetes.io/name"
_PODS: Final = {"k8s-app": "kube-dns"}  # of both Deployments


class EarlierDns:
    """The DNS of an earlier version in a lab's state, if there is one. `kinds` are those of RBAC, by name.

    Call `keep_settings` before the shipped objects are created, `missing` before the Deployment is, and `finish` after
    that. All raise ClientError, and can be called again.
    """

    def __init__(self, client: ApiClient, kinds: Mapping[str, Kind[Any]]) -> None:
        self._client = client
        self._kinds = kinds
        self._settings: ConfigMap | None = None
        self._has_account = False
        self._replicas: int | None = None
        self._is_kept = self._is_gone = self._is_finished = False

    async def keep_settings(self) -> None:
        """Create the ConfigMap under its present name, with the data of the earlier one."""
        if self._is_kept:
            return
        with contextlib.suppress(NotFound):
            self._has_account = bool(await self._client.get(SERVICE_ACCOUNTS, EARLIER_DNS, _NAMESPACE))
        with contextlib.suppress(NotFound):
            self._settings = await self._client.get(CONFIG_MAPS, EARLIER_DNS, _NAMESPACE)
        if self._settings is not None and "Corefile" in self._settings.data:
            meta = self._settings.metadata
            kept = {"name": DNS, "namespace": _NAMESPACE, "labels": meta.labels, "annotations": meta.annotations}
            manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": kept, "data": self._settings.data}
            with contextlib.suppress(AlreadyExists):
                await self._client.create(CONFIG_MAPS, manifest)
                log.info("ConfigMap %s: its data are in ConfigMap %s now", EARLIER_DNS, DNS)
        self._is_kept = True

    async def missing(self) -> str | None:
        """Delete the earlier Deployment. Return what is waited for, as text; None when its pods are gone."""
        if self._is_gone:
            return None
        try:
            found: Deployment = await self._client.get(DEPLOYMENTS, EARLIER_DNS, _NAMESPACE)
        except NotFound:
            self._is_gone = True
            return None
        if found.spec.selector.match_labels != _PODS:
            self._is_gone = True  # the user's
            return None
        self._replicas = found.spec.replicas
        if found.metadata.deletion_timestamp is None:
            with contextlib.suppress(NotFound):
                await self._client.delete(
                    DEPLOYMENTS, EARLIER_DNS, _NAMESPACE, uid=found.metadata.uid, propagation_policy="Foreground"
                )
        return "the end of the DNS of an earlier version"

    async def finish(self) -> None:
        """Give the Deployment the earlier number of replicas, and delete what nothing uses any more."""
        if self._is_finished:
            return
        if self._replicas is not None:
            await self._client.patch(DEPLOYMENTS, DNS, _NAMESPACE, {"spec": {"replicas": self._replicas}})
        if self._has_account:
            await self._delete(SERVICE_ACCOUNTS, EARLIER_DNS, _NAMESPACE)
            for kind in ("ClusterRoleBinding", "ClusterRole"):
                await self._delete(self._kinds[kind], _EARLIER_ROLE, "")
        await self._name_service()
        if self._settings is not None:
            present = await self._client.get(CONFIG_MAPS, DNS, _NAMESPACE)
            if present.data == self._settings.data:
                await self._delete(CONFIG_MAPS, EARLIER_DNS, _NAMESPACE)
            else:
                log.warning("ConfigMap %s is not used any more; the DNS reads %s", EARLIER_DNS, DNS)
        self._is_finished = True

    async def _name_service(self) -> None:
        """Give the Service the label from which `kubectl cluster-info` takes the name, unless the user changed it."""
        with contextlib.suppress(NotFound):
            service = await self._client.get(SERVICES, "kube-dns", _NAMESPACE)
            if service.metadata.labels.get(_NAME_LABEL) == EARLIER_DNS:
                await self._client.patch(
                    SERVICES, "kube-dns", _NAMESPACE, {"metadata": {"labels": {_NAME_LABEL: "CoreDNS"}}}
                )

    async def _delete(self, kind: Kind[Any], name: str, namespace: str) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(kind, name, namespace)
