"""Admission of objects that refer to classes: default classes, priorities of pods, overhead of runtimes.

Source: Kubernetes admission plug-ins DefaultIngressClass, DefaultStorageClass, Priority and RuntimeClass.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridgehead.apiserver.errors import ApiStatus, forbidden
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.resources.networking import CLASS_ANNOTATION, is_default_ingress_class
from bridgehead.apiserver.resources.storage import is_default_storage_class
from bridgehead.objects.critical_pods import SYSTEM_CLASSES
from bridgehead.storage import Key, Store

from .attributes import CREATE, DELETE, UPDATE, Attributes, shown_name
from .chain import Plugin

_INGRESS_CLASSES = "ingressclasses.networking.k8s.io"
_PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
_DEFAULT_POLICY = "PreemptLowerPriority"

_decode = msgspec.json.decode


def _refuse(resource: Resource, obj: JsonObject, why: str) -> ApiStatus:
    return forbidden(resource, shown_name(obj), why)


def _creates(attributes: Attributes, resource: str) -> bool:
    return attributes.operation == CREATE and attributes.resource.id == resource and not attributes.subresource


class DefaultIngressClass(Plugin):
    """The plug-in DefaultIngressClass."""

    is_static = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        return _creates(attributes, "ingresses.networking.k8s.io")

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        set_ingress_class(self._store, obj)
        return obj


class MissingIngressClass(Plugin):
    """Warns of an Ingress on which no controller acts: a cluster without an ingress controller has no IngressClass.

    Kubernetes has no such plug-in, and accepts such an Ingress without a warning.
    """

    is_static = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        return _creates(attributes, "ingresses.networking.k8s.io")

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        name = obj["spec"].get("ingressClassName")
        if not name and obj["metadata"].get("annotations", {}).get(CLASS_ANNOTATION):
            return  # the annotation is for a controller, which finds it without an IngressClass
        if name and self._store.get(Key(_INGRESS_CLASSES, "", name)) is not None:
            return
        lack = f"it has no IngressClass {name}" if name else "this Ingress names no class"
        advice = "install an ingress controller, and name its class in spec.ingressClassName"
        attributes.warnings.append(f"nothing in this cluster acts on this Ingress, because {lack}; {advice}")


class DefaultStorageClass(Plugin):
    """The plug-in DefaultStorageClass."""

    is_static = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        return _creates(attributes, "persistentvolumeclaims")

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        set_storage_class(self._store, obj)
        return obj


class RuntimeClass(Plugin):
    """The plug-in RuntimeClass."""

    is_static = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        return _creates(attributes, "pods")

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        apply_runtime_class(self._store, attributes.resource, obj)
        return obj


class PodPriority(Plugin):
    """The part of the plug-in Priority that is for pods."""

    is_static = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        is_update = attributes.operation == UPDATE and not attributes.subresource
        return _creates(attributes, "pods") or (is_update and attributes.resource.id == "pods")

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        if attributes.operation == CREATE:
            set_priority(self._store, attributes.resource, obj)
        else:  # an update that leaves out what this plug-in has set, such as one with the manifest of the create
            for field in ("priority", "preemptionPolicy"):
                if field in old["spec"]:
                    obj["spec"].setdefault(field, old["spec"][field])
        return obj


class PriorityClasses(Plugin):
    """The part of the plug-in Priority that is for classes: one default, and the system's classes stay."""

    is_static = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        return attributes.resource.id == _PRIORITY_CLASSES and attributes.operation in (CREATE, UPDATE, DELETE)

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        if attributes.operation != DELETE:
            check_priority_class(self._store, attributes.resource, obj)
        elif old["metadata"]["name"] in SYSTEM_CLASSES:
            why = "this is a system priority class and cannot be deleted"
            raise forbidden(attributes.resource, old["metadata"]["name"], why)


def set_ingress_class(store: Store, ingress: JsonObject) -> None:
    """Set the default class of an Ingress that names none."""
    spec = ingress.setdefault("spec", {})
    if "ingressClassName" in spec or CLASS_ANNOTATION in ingress["metadata"].get("annotations", {}):
        return
    if name := _newest_default(store, _INGRESS_CLASSES, is_default_ingress_class):
        spec["ingressClassName"] = name


def set_storage_class(store: Store, claim: JsonObject) -> None:
    """Set the default class of a PersistentVolumeClaim that names none."""
    spec = claim.setdefault("spec", {})
    annotations = claim["metadata"].get("annotations", {})
    if "storageClassName" in spec or "volume.beta.kubernetes.io/storage-class" in annotations:
        return
    if name := _newest_default(store, "storageclasses.storage.k8s.io", is_default_storage_class):
        spec["storageClassName"] = name


def _newest_default(store: Store, resource: str, is_default: Callable[[JsonObject], bool]) -> str:
    """Return the name of the newest class that is a default, or ""."""
    classes = [obj for obj in (_decode(record.value) for record in store.list(resource)) if is_default(obj)]
    classes.sort(key=lambda obj: str(obj["metadata"]["name"]))
    classes.sort(key=lambda obj: str(obj["metadata"]["creationTimestamp"]), reverse=True)
    return str(classes[0]["metadata"]["name"]) if classes else ""


def set_priority(store: Store, resource: Resource, pod: JsonObject) -> None:
    """Set `priority` and `preemptionPolicy` by the pod's class, or by the default class. Raises a 403."""
    spec = pod["spec"]
    if name := spec.get("priorityClassName"):
        record = store.get(Key(_PRIORITY_CLASSES, "", name))
        if record is None and name not in SYSTEM_CLASSES:
            raise _refuse(resource, pod, f"no PriorityClass with name {name} was found")
        chosen = {"value": SYSTEM_CLASSES.get(name, 0)} if record is None else _decode(record.value)
    else:
        chosen = default_priority_class(store)
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    chosen = chosen or {}
    wanted = {"priority": chosen.get("value", 0), "preemptionPolicy": chosen.get("preemptionPolicy", _DEFAULT_POLICY)}
    for field, computed in wanted.items():
        given = spec.setdefault(field, computed)
        if given != computed:
            what = "integer value of priority" if field == "priority" else "string value of PreemptionPolicy"
            why = (
                f"the {what} ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {computed} from the given PriorityClass name"
            )
            raise _refuse(resource, pod, why)


def default_priority_class(store: Store) -> JsonObject | None:
    """Return the default PriorityClass; the one with the lowest value if there are several."""
    classes = [obj for obj in (_decode(r.value) for r in store.list(_PRIORITY_CLASSES)) if obj.get("globalDefault")]
    return min(classes, key=lambda obj: int(obj.get("value", 0)), default=None)


def check_priority_class(store: Store, resource: Resource, obj: JsonObject) -> None:
    """Raise a 403 for a second default PriorityClass."""
    if not obj.get("globalDefault"):
        return
    current = default_priority_class(store)
    if current is not None and current["metadata"]["name"] != obj["metadata"].get("name"):
        name = current["metadata"]["name"]
        why = f"PriorityClass {name} is already marked as default. Only one default can exist"
        raise _refuse(resource, obj, why)


def apply_runtime_class(store: Store, resource: Resource, pod: JsonObject) -> None:
    """Set the pod's overhead, and add the node selector and the tolerations of its RuntimeClass. Raises a 403."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    runtime: JsonObject = {}
    if name is not None:
        record = store.get(Key("runtimeclasses.node.k8s.io", "", name))
        if record is None:
            raise _refuse(resource, pod, f'pod rejected: RuntimeClass "{name}" not found')
        runtime = _decode(record.value)
    if "overhead" in runtime:
        overhead = runtime["overhead"].get("podFixed", {})
        if spec.get("overhead", overhead) != overhead:
            why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise _refuse(resource, pod, why)
        spec["overhead"] = overhead
    elif "overhead" in spec:
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise _refuse(resource, pod, why)
    scheduling = runtime.get("scheduling", {})
    for key, value in scheduling.get("nodeSelector", {}).items():
        given = spec.setdefault("nodeSelector", {}).setdefault(key, value)
        if given != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {given}"
            )
            raise _refuse(resource, pod, why)
    for toleration in scheduling.get("tolerations", ()):
        if toleration not in spec.get("tolerations", ()):
            spec.setdefault("tolerations", []).append(toleration)
