"""Pods for tests, from the parts of their specification."""

from __future__ import annotations

import msgspec

from bridgehead.objects.core import Pod


def make_pod(of_pod=None, own=None, *, annotations=None, qos_class="", **spec):
    """`of_pod` is the pod's security context, `own` its container's."""
    container = {"name": "app", **({"securityContext": own} if own is not None else {})}
    spec = {"containers": [container], **({"securityContext": of_pod} if of_pod is not None else {}), **spec}
    meta = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations or {}}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"qosClass": qos_class}}, Pod)


def requesting(name="p", *, qos_class="", annotations=None, **spec):
    containers = [{"name": "app", "resources": {"requests": spec.pop("requests", {})}}]
    made = make_pod(annotations=annotations, qos_class=qos_class, containers=containers, **spec)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, name=name))
