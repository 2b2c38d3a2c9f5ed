"""The system objects of a lab: their manifests, their creation, and their update when another version ships other ones.

Workloads and RBAC objects belong to the program: `up` of an existing state changes them to what it ships. An annotation
with a digest of the shipped manifest shows whether it has to, so that the user's changes stay while nothing else is
shipped. All other objects (ConfigMaps, Services, pools, ...) are the user's once they exist.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
from collections.abc import Coroutine
from importlib import resources
from string import Template
from typing import Any, Final

import msgspec

from bridgehead import __version__
from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, Conflict, Invalid, NotFound
from bridgehead.objects.kinds import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    SERVICES,
    STORAGE_CLASSES,
    Kind,
)
from bridgehead.objects.meta import Object
from bridgehead.yaml_loader import load_all

from .addressing import API_PORT, api_urls
from .outside_names import render_outside_names
from .plan import CLUSTER_DOMAIN, LabConfig

log = logging.getLogger(__name__)

DIGEST_ANNOTATION: Final = "bridgehead.io/manifest-digest"
_OF_THE_PROGRAM: Final = frozenset(
    {"DaemonSet", "Deployment", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
)

Manifest = dict[str, Any]


def _plural(kind: str) -> str:
    return f"{kind.lower().removesuffix('y')}ies" if kind.endswith("y") else f"{kind.lower()}s"


KINDS: dict[str, Kind[Any]] = {
    kind.name: kind
    for kind in (NAMESPACES, SERVICE_ACCOUNTS, CONFIG_MAPS, SERVICES, DAEMON_SETS, DEPLOYMENTS, STORAGE_CLASSES)
} | {
    name: Kind(Object, group, version, _plural(name), namespaced=not name.startswith(("Cluster", "Validating")))
    for group, version, names in (
        ("rbac.authorization.k8s.io", "v1", "ClusterRole ClusterRoleBinding Role RoleBinding"),
        ("metallb.io", "v1beta1", "IPAddressPool L2Advertisement"),
        ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"),
    )
    for name in names.split()
}
# Objects need their namespace, and pods their ServiceAccount.
_STAGES = {NAMESPACES.name: 0, DAEMON_SETS.name: 2, DEPLOYMENTS.name: 2}


def system_manifests(file: str, config: LabConfig) -> list[dict[str, Any]]:
    """Return the objects of kube-system in one file of `manifests/`, as plain objects."""
    servers = api_urls(config.ranges, config.api_servers)
    # With several servers, pods reach one that lives by the Service `kubernetes`.
    api_address = (config.ranges[0].lab, API_PORT) if len(servers) == 1 else (config.ranges[0].kubernetes_service, 443)
    text = resources.files(__package__).joinpath("manifests", file).read_text("utf-8")
    filled = Template(text).substitute(
        pod_range=",".join(ranges.pods for ranges in config.ranges),
        api_server=servers[0],
        api_servers=msgspec.json.encode(servers).decode(),
        api_host=api_address[0],
        api_port=api_address[1],
        cluster_dns=config.ranges[0].cluster_dns,
        cluster_domain=CLUSTER_DOMAIN,
        outside_names=render_outside_names(config).replace("\n", "\n    "),
        balancer_ranges=", ".join(ranges.balancer for ranges in config.ranges),
        version=__version__,
    )
    return load_all(filled)


class Installer:
    """Creates the system objects of a lab, each file of `manifests/` once."""

    def __init__(self, client: ApiClient, config: LabConfig) -> None:
        self._client = client
        self._config = config
        self._installed: set[tuple[str, int]] = set()  # files and their stages

    async def install(self, file: str, *, workloads: bool = True) -> None:
        """Create the missing objects, and update the program's, of those that have pods only if `workloads`."""
        missing = [stage for stage in range(3 if workloads else 2) if (file, stage) not in self._installed]
        manifests = system_manifests(file, self._config) if missing else []
        for stage in missing:
            await all_of(
                *(
                    ensure(self._client, KINDS[one["kind"]], one)
                    for one in manifests
                    if _STAGES.get(one["kind"], 1) == stage
                )
            )
            self._installed.add((file, stage))


async def all_of(*works: Coroutine[Any, Any, None]) -> None:
    """Do all of the works at the same time. Raises the first exception when all have ended."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if outcome is not None:
            raise outcome


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
