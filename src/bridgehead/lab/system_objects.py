"""Creation of a lab's own objects, and their update when another version of Bridgehead ships other ones.

Workloads and RBAC objects belong to the program: `up` of an existing state changes them to what it ships. An annotation
with a digest of the shipped manifest shows whether it has to, so that the user's changes stay while nothing else is
shipped. All other objects (ConfigMaps, Services, pools, ...) are the user's once they exist.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from typing import Any, Final

from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, Conflict, Invalid, NotFound
from bridgehead.objects.kinds import SERVICES, Kind

log = logging.getLogger(__name__)

DIGEST_ANNOTATION: Final = "bridgehead.io/manifest-digest"
_OF_THE_PROGRAM: Final = frozenset(
    {"DaemonSet", "Deployment", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
)

Manifest = dict[str, Any]


async def ensure(client: ApiClient, kind: Kind[Any], manifest: Manifest) -> None:
    """Create the object if it is missing, or update it if it is the program's and differs. Raises ClientError."""
    meta = manifest["metadata"]
    name, namespace = meta["name"], meta.get("namespace", "")
    if kind is SERVICES:
        # Read first: to create an existing Service is refused, because its address is taken by itself.
        with contextlib.suppress(NotFound):
            await client.get(kind, name, namespace)
            return
    is_ours = manifest["kind"] in _OF_THE_PROGRAM
    marked = mark(manifest) if is_ours else manifest
    try:
        await client.create(kind, marked)
    except AlreadyExists:
        if is_ours:
            await _update(client, kind, marked)


async def _update(client: ApiClient, kind: Kind[Any], marked: Manifest) -> None:
    meta = marked["metadata"]
    name, namespace = meta["name"], meta.get("namespace", "")
    try:
        found = await client.get(kind, name, namespace)
        if found.metadata.annotations.get(DIGEST_ANNOTATION) != meta["annotations"][DIGEST_ANNOTATION]:
            await client.patch(kind, name, namespace, update_of(marked))
    except NotFound:
        pass  # somebody deletes it at the moment
    except (Conflict, Invalid) as error:  # for example of another selector or roleRef: perhaps it is the user's
        where = f"{namespace}/{name}" if namespace else name
        log.warning(
            "%s %s stays as it is: %s; to have the shipped one, delete it before `up`", marked["kind"], where, error
        )


def mark(manifest: Manifest) -> Manifest:
    """Return a manifest with an annotation that has its digest."""
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]
    meta = manifest["metadata"]
    annotations = {**meta.get("annotations", {}), DIGEST_ANNOTATION: digest}
    return {**manifest, "metadata": {**meta, "annotations": annotations}}


def update_of(marked: Manifest) -> Manifest:
    """Return the merge patch that makes an object of another version the shipped one.

    Lists (containers, volumes, rules) are as shipped. The number of replicas and fields that the manifest lacks stay.
    """
    patch = {key: value for key, value in marked.items() if key not in ("apiVersion", "kind")}
    if "spec" in patch:
        patch["spec"] = {key: value for key, value in patch["spec"].items() if key != "replicas"}
    return patch
