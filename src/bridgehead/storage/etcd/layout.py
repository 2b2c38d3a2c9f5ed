"""Keys of objects as etcd's keys, in Kubernetes' own layout.

    PREFIX/RESOURCE[/NAMESPACE]/NAME            built-in resources, without their group
    PREFIX/GROUP/RESOURCE[/NAMESPACE]/NAME      CustomResourceDefinitions, APIServices and custom resources
    PREFIX/bridgehead/...                       data of this project alone

Pure: no I/O, no clock, no randomness.
Source: pkg/kubeapiserver/default_storage_factory_builder.go (SpecialDefaultResourcePrefixes),
apiserver/pkg/server/storage/storage_factory.go, apiextensions-apiserver/pkg/apiserver/customresource_handler.go,
apiserver/pkg/registry/generic/registry/store.go (NamespaceKeyFunc).
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.storage.records import Key

DEFAULT_PREFIX = "/registry"
# The definitions of custom resources, which a codec needs before their objects.
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"

_OWN = "bridgehead"
# Paths that are not the resource's plural. Kubernetes stores no ComponentStatuses.
_PATHS = {
    "componentstatuses": f"{_OWN}/componentstatuses",
    "services": "services/specs",
    "endpoints": "services/endpoints",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "ingresses.networking.k8s.io": "ingress",
    DEFINITIONS: "apiextensions.k8s.io/customresourcedefinitions",
    "apiservices.apiregistration.k8s.io": "apiregistration.k8s.io/apiservices",
}


class Layout:
    """The keys below one prefix.

    `built_in` are the ids of Kubernetes' own resources, and whether these are namespaced; all others are custom
    resources. Bytes, as etcd's keys are.
    """

    def __init__(self, built_in: Mapping[str, bool], prefix: str = DEFAULT_PREFIX) -> None:
        # Kubernetes takes a prefix with and without slashes at its ends for the same.
        self.prefix = f"/{prefix.strip('/')}/".encode() if prefix.strip("/") else b"/"
        self._namespaced = dict(built_in)
        self._paths = {resource: _PATHS.get(resource, resource.partition(".")[0]) for resource in built_in}
        self._ids = {path: resource for resource, path in self._paths.items()}
        if len(self._ids) < len(self._paths):
            raise ValueError("two resources have the same path")

    @property
    def shown(self) -> str:
        """The prefix for messages, without a slash at its end."""
        return self.prefix.decode().rstrip("/") or "/"

    def own_prefix(self) -> bytes:
        """Return the prefix of the keys that Kubernetes does not have."""
        return self.prefix + f"{_OWN}/".encode()

    def resource_prefix(self, resource: str, namespace: str = "") -> bytes:
        """Return what the keys of a resource, or of its objects in one namespace, begin with; the last byte is `/`."""
        path = self._path(resource)
        return self.prefix + (f"{path}/{namespace}/" if namespace else f"{path}/").encode()

    def etcd_key(self, key: Key) -> bytes:
        path = self._path(key.resource)
        return self.prefix + (f"{path}/{key.namespace}/{key.name}" if key.namespace else f"{path}/{key.name}").encode()

    def object_key(self, etcd_key: bytes) -> Key | None:
        """Return the key of an object; None for a key that is no object's, such as those of allocation bitmaps."""
        if not etcd_key.startswith(self.prefix):
            return None
        try:
            parts = etcd_key[len(self.prefix) :].decode().split("/")
        except UnicodeDecodeError:
            return None
        if not all(parts):
            return None
        return self._built_in(parts) or _custom(parts)

    def _path(self, resource: str) -> str:
        path = self._paths.get(resource)
        if path is None:
            plural, _, group = resource.partition(".")
            return f"{group}/{plural}"
        return path

    def _built_in(self, parts: list[str]) -> Key | None:
        for length in (1, 2):
            resource = self._ids.get("/".join(parts[:length]))
            if resource is not None:
                names = parts[length:] if self._namespaced[resource] else ["", *parts[length:]]
                return Key(resource, *names) if len(names) == 2 else None
        return None


def _custom(parts: list[str]) -> Key | None:
    """Return the key of a custom resource. Its group has a dot, and a built-in resource's path none."""
    group, *rest = parts
    if "." not in group or len(rest) not in (2, 3):
        return None
    resource = f"{rest[0]}.{group}"
    return Key(resource, "", rest[1]) if len(rest) == 2 else Key(resource, rest[1], rest[2])
