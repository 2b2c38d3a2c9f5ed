"""Installation of the definitions of MetalLB's and OpenELB's kinds, and of the namespace of their objects.

Only missing definitions are created: those that the user applied, of whatever version, stay as they are. Missing ones
are installed so that whoever brings them later takes them over without a conflict or a warning: they have the
annotation of `kubectl apply`, no manager owns their fields (for `kubectl apply --server-side` and Helm 4), and those of
MetalLB have the ownership metadata of the release that its documentation installs (`HELM_RELEASE`). Called by the
controller before it starts, and when one of them is deleted, as by `kubectl delete` of a published manifest.

Source: Kubernetes, "Server-Side Apply"; Helm, "Adopt existing resources" (label and annotations of a release).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridgehead.backoff import Backoff
from bridgehead.client import ApiClient, Informer
from bridgehead.client.errors import AlreadyExists, NotFound
from bridgehead.objects.extensions import DEFINITIONS, CustomResourceDefinition
from bridgehead.objects.kinds import NAMESPACES
from bridgehead.objects.meta import is_condition_true

log = logging.getLogger(__name__)


# Names of the definitions, by the file that has them. An installed one is found without reading YAML.
FILES = {
    "metallb.yaml": (
        "ipaddresspools.metallb.io",
        "l2advertisements.metallb.io",
        "bgpadvertisements.metallb.io",
        "communities.metallb.io",
        "bgppeers.metallb.io",
        "bfdprofiles.metallb.io",
        "servicel2statuses.metallb.io",
        "servicebgpstatuses.metallb.io",
        "configurationstates.metallb.io",
    ),
    "openelb.yaml": (
        "eips.network.kubesphere.io",
        "bgpconfs.network.kubesphere.io",
        "bgppeers.network.kubesphere.io",
    ),
}
# Annotation of each definition that the balancer has installed.
INSTALLED_ANNOTATION = "bridgehead.io/installed-by"
# Namespace and name of the release that adopts the definitions: `helm install metallb metallb/metallb --namespace
# metallb-system`. A release with other names needs Helm's option --take-ownership.
HELM_RELEASE = ("metallb-system", "metallb")
_MANAGER = "bridgehead-balancer"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_DELAYS = (0.02, 0.1)  # seconds: first and longest between two looks at a new definition


def load_definitions(file: str) -> list[dict[str, Any]]:
    """Return the definitions of one of `FILES`."""
    from bridgehead.yaml_loader import load

    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    items: list[dict[str, Any]] = load(text)["items"]
    return items


async def install(client: ApiClient, *namespaces: str) -> None:
    """Create the namespaces and definitions that are missing, and return when all are served. Raises ClientError."""
    for namespace in namespaces:
        await _create_namespace(client, namespace)
    names = [name for group in FILES.values() for name in group]
    found = await asyncio.gather(*(_find(client, name) for name in names))
    await asyncio.gather(*(_renew(client, definition) for definition in found if definition is not None))
    waiting = [name for name, definition in zip(names, found, strict=True) if not _is_established(definition)]
    if not waiting:
        return
    await asyncio.gather(
        *(
            _create(client, definition)
            for file, group in FILES.items()
            if any(name in waiting for name in group)
            for definition in load_definitions(file)
            if definition["metadata"]["name"] in waiting
        )
    )
    # When the last one is served, the others usually need only one look.
    await _wait_established(client, waiting[-1])
    await asyncio.gather(*(_wait_established(client, name) for name in waiting[:-1]))


async def watch_deletions(client: ApiClient, on_deletion: Callable[[], None]) -> None:
    """Call `on_deletion` whenever one of the definitions has been deleted, until cancelled."""

    def changed(old: CustomResourceDefinition | None, new: CustomResourceDefinition | None) -> None:
        if old is not None and new is None and any(old.metadata.name in group for group in FILES.values()):
            on_deletion()

    definitions = Informer(client, DEFINITIONS)
    definitions.on_change(changed)
    await definitions.run()


async def _create_namespace(client: ApiClient, namespace: str) -> None:
    try:
        await client.get(NAMESPACES, namespace)
    except NotFound:
        with contextlib.suppress(AlreadyExists):
            new = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await client.create(NAMESPACES, _as_applied(new))
            log.info("created the namespace %s", namespace)


async def _create(client: ApiClient, definition: dict[str, Any]) -> None:
    name = definition["metadata"]["name"]
    try:
        await client.create(DEFINITIONS, _as_adoptable(definition))
    except AlreadyExists:
        log.debug("%s: created by another client a moment ago", name)
        return
    log.info("created the definition %s", name)
    await _disown(client, name)


async def _disown(client: ApiClient, name: str) -> None:
    """Leave the fields of a definition to nobody: whoever applies them does not collide with an owner."""
    entry = {
        "manager": _MANAGER,
        "operation": "Update",
        "apiVersion": DEFINITIONS.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{INSTALLED_ANNOTATION}": {}}}},
    }
    with contextlib.suppress(NotFound):  # deleted a moment ago
        await client.patch(DEFINITIONS, name, "", {"metadata": {"managedFields": [entry]}})


def _as_adoptable(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the definition with the metadata by which kubectl and Helm take it over."""
    applied = _as_applied(definition)
    metadata = applied["metadata"]
    annotations = {**metadata["annotations"], INSTALLED_ANNOTATION: _MANAGER}
    labels = dict(metadata.get("labels", {}))
    if metadata["name"] in FILES["metallb.yaml"]:
        namespace, release = HELM_RELEASE
        annotations |= {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
        labels["app.kubernetes.io/managed-by"] = "Helm"
    return {**applied, "metadata": {**metadata, "annotations": annotations, "labels": labels}}


def _as_applied(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest with an annotation like that of `kubectl apply`, of the name only: a later one deletes
    nothing."""
    metadata = manifest["metadata"]
    applied = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": {"name": metadata["name"]}}
    annotations = {**metadata.get("annotations", {}), _LAST_APPLIED: json.dumps(applied)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


async def _renew(client: ApiClient, definition: CustomResourceDefinition) -> None:
    """Give a definition that an earlier version has installed the metadata of this one."""
    metadata = definition.metadata
    stub = {"apiVersion": DEFINITIONS.api_version, "kind": DEFINITIONS.name, "metadata": {"name": metadata.name}}
    wanted = _as_adoptable(stub)["metadata"]
    is_ours = metadata.annotations.get(_LAST_APPLIED) == wanted["annotations"][_LAST_APPLIED]
    if is_ours and INSTALLED_ANNOTATION not in metadata.annotations:
        patch = {"annotations": wanted["annotations"], "labels": wanted["labels"]}
        await client.patch(DEFINITIONS, metadata.name, "", {"metadata": patch})
        await _disown(client, metadata.name)


async def _find(client: ApiClient, name: str) -> CustomResourceDefinition | None:
    try:
        return await client.get(DEFINITIONS, name)
    except NotFound:
        return None


def _is_established(definition: CustomResourceDefinition | None) -> bool:
    return definition is not None and is_condition_true(definition.status.conditions, "Established")


async def _wait_established(client: ApiClient, name: str) -> None:
    backoff = Backoff(*_DELAYS)
    while not _is_established(await _find(client, name)):  # noqa: ASYNC110 - the event is in another process
        await asyncio.sleep(backoff.next())
