"""Default values for the fields of pod specs, in pods and in pod templates.

The functions change the spec in place and are idempotent. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/apis/core/v1/defaults.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.resource_names import COMPUTE, HUGE_PAGES
from bridgehead.objects.quantities import format_quantity

from .pod_resources import pod_amounts

# References of images, as in github.com/distribution/reference.
_COMPONENT = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_LABEL = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])"
_REFERENCE = re.compile(
    rf"(?:{_HOST}(?::[0-9]+)?/)?{_COMPONENT}(?:/{_COMPONENT})*(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_DIGEST = re.compile("[0-9a-f]{64}")  # no name, because it looks like one

_FILE_MODE = 0o644
_TOKEN_SECONDS = 3600
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
# Defaults of volumes of storage systems outside of the cluster.
_SOURCE_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "iscsi": {"iscsiInterface": "default", "lun": 0},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
_HOOKS = ("postStart", "preStop")


def set_spec_defaults(spec: JsonObject) -> None:
    """Set the defaults of a pod spec, of a pod or of a template."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec["schedulerName"] = spec.get("schedulerName") or "default-scheduler"
    _synchronize(spec, "serviceAccountName", "serviceAccount")
    for container in containers_of(spec):
        _set_container_defaults(container)
    for container in spec.get("ephemeralContainers", ()):
        _set_container_defaults(container)
    for volume in spec.get("volumes", ()):
        _set_volume_defaults(volume)


def set_pod_defaults(spec: JsonObject) -> None:
    """Set the defaults of a pod that templates do not get, because they would fix them for later pods."""
    spec.setdefault("enableServiceLinks", True)
    # A template keeps a negative value and warns of it. Source: Kubernetes `Convert_v1_Pod_To_core_Pod`.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in containers_of(spec):
        resources = container["resources"]
        for name, quantity in resources.get("limits", {}).items():
            resources.setdefault("requests", {}).setdefault(name, quantity)
        if spec.get("hostNetwork"):
            for port in container.get("ports", ()):
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    if spec.get("resources"):
        _set_resource_defaults(spec)


def _set_resource_defaults(spec: JsonObject) -> None:
    """Set limits of huge pages and requests of the pod as a whole, if it has resources.

    Huge pages cannot be overcommitted, so a pod's are those of its containers and its request is its limit. Other
    requests are those of the containers, else the limits.
    """
    resources = spec["resources"]
    of_containers: JsonObject = {name: spec[name] for name in ("containers", "initContainers") if name in spec}
    for name, amount in pod_amounts(of_containers, "limits").items():
        if name.startswith(HUGE_PAGES):
            limit = format_quantity(amount.value, is_binary=amount.is_binary)
            resources.setdefault("limits", {}).setdefault(name, limit)
    if not (limits := resources.get("limits")):
        return
    requests = resources.setdefault("requests", {})
    for name, amount in pod_amounts(of_containers, "requests").items():
        if name in COMPUTE:
            requests.setdefault(name, format_quantity(amount.value, is_binary=amount.is_binary))
    for name, limit in limits.items():
        if name in COMPUTE or name.startswith(HUGE_PAGES):
            requests.setdefault(name, limit)


def containers_of(spec: JsonObject) -> Iterator[JsonObject]:
    """Yield init containers and containers, in the order in which they start."""
    yield from spec.get("initContainers", ())
    yield from spec.get("containers", ())


def _synchronize(spec: JsonObject, name: str, older_name: str) -> None:
    """Synchronize two names of one field; the newer name wins."""
    if value := spec.get(name) or spec.get(older_name):
        spec[name] = spec[older_name] = value


def _set_container_defaults(container: JsonObject) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy_for(container.get("image", ""))
    for port in container.get("ports", ()):
        port["protocol"] = port.get("protocol") or "TCP"
    for variable in container.get("env", ()):
        _set_field_ref_defaults(variable.get("valueFrom", {}))
    for name in _PROBES:
        if name in container:
            _set_probe_defaults(container[name])
    for name in _HOOKS:
        _set_handler_defaults(container.get("lifecycle", {}).get(name, {}))


@lru_cache(maxsize=1024)
def pull_policy_for(image: str) -> str:
    """Return the default pull policy: Always for the tag `latest`, explicit or implied, because it can move.

    A text that is no reference of an image has no tag.
    """
    found = _REFERENCE.fullmatch(image)
    if found is None or _DIGEST.fullmatch(image):
        return "IfNotPresent"
    return "Always" if (found["tag"] or ("" if found["digest"] else "latest")) == "latest" else "IfNotPresent"


def _set_probe_defaults(probe: JsonObject) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe[name] = probe.get(name) or value
    _set_handler_defaults(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _set_handler_defaults(handler: JsonObject) -> None:
    if "httpGet" in handler:
        http = handler["httpGet"]
        http["path"] = http.get("path") or "/"
        http["scheme"] = http.get("scheme") or "HTTP"


def _set_field_ref_defaults(holder: JsonObject) -> None:
    if "fieldRef" in holder:
        holder["fieldRef"]["apiVersion"] = holder["fieldRef"].get("apiVersion") or "v1"
    if "resourceFieldRef" in holder:
        holder["resourceFieldRef"].setdefault("divisor", "0")


def _set_volume_defaults(volume: JsonObject) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", _FILE_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if "ephemeral" in volume:
        template = volume["ephemeral"].get("volumeClaimTemplate", {})
        template.setdefault("metadata", {})
        template.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    for source, defaults in _SOURCE_DEFAULTS.items():
        if source in volume:
            for name, value in defaults.items():
                volume[source].setdefault(name, value)
    if "image" in volume and not volume["image"].get("pullPolicy"):
        volume["image"]["pullPolicy"] = pull_policy_for(volume["image"].get("reference", ""))
    for item in _downward_items(volume):
        _set_field_ref_defaults(item)
    for source in volume.get("projected", {}).get("sources", ()):
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)


def _downward_items(volume: JsonObject) -> Iterator[Any]:
    yield from volume.get("downwardAPI", {}).get("items", ())
    for source in volume.get("projected", {}).get("sources", ()):
        yield from source.get("downwardAPI", {}).get("items", ())
