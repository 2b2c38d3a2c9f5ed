"""agnhost's answers of admission and conversion webhooks. Pure: no I/O, no clock, no randomness.

The labels, keys, values and messages are those that Kubernetes' tests of webhooks send and expect.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

# The request of an AdmissionReview -> its response, without the uid.
Reviewer = Callable[[Mapping[str, Any]], dict[str, Any]]
_MARK = "webhook-e2e-test"


def _deny(message: str = "", reason: str = "") -> dict[str, Any]:
    status = {name: text for name, text in (("message", message), ("reason", reason)) if text}
    return {"allowed": False, "status": {"metadata": {}, **status}}


def _patch(*operations: dict[str, Any]) -> dict[str, Any]:
    """Allow, with a JSON patch."""
    patch = base64.b64encode(msgspec.json.encode(operations)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def deny_all(request: Mapping[str, Any]) -> dict[str, Any]:
    return _deny("this webhook denies all requests")


def allow_all(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"allowed": True, "status": {"metadata": {}, "message": "this webhook allows all requests"}}


def add_label(request: Mapping[str, Any]) -> dict[str, Any]:
    labels = request["object"]["metadata"].get("labels") or {}
    if not labels:
        return _patch({"op": "add", "path": "/metadata/labels", "value": {"added-label": "yes"}})
    if labels.get("added-label") == "yes":
        return {"allowed": True}
    operation = "replace" if "added-label" in labels else "add"
    return _patch({"op": operation, "path": "/metadata/labels/added-label", "value": "yes"})


def admit_pods(request: Mapping[str, Any]) -> dict[str, Any]:
    pod = request["object"]
    problems = []
    if (pod["metadata"].get("labels") or {}).get(_MARK) == "webhook-disallow":
        problems.append("the pod contains unwanted label;")
    problems += [
        "the pod contains unwanted container name;"
        for container in pod["spec"]["containers"]
        if "webhook-disallow" in container["name"]
    ]
    return _deny(" ".join(problems)) if problems else {"allowed": True}


def waits_forever(request: Mapping[str, Any]) -> bool:
    """Whether a review of pods is never to be answered."""
    return (request["object"]["metadata"].get("labels") or {}).get(_MARK) == "wait-forever"


def add_init_container(request: Mapping[str, Any]) -> dict[str, Any]:
    pod = request["object"]
    name = "webhook-added-init-container"
    present = any(container["name"] == name for container in pod["spec"].get("initContainers") or ())
    if pod["metadata"].get("name") != "webhook-to-be-mutated" or present:
        return {"allowed": True}
    added = {"image": "webhook-added-image", "name": name, "resources": {}}
    return _patch({"op": "add", "path": "/spec/initContainers", "value": [added]})


def sidecar_adder(image: str) -> Reviewer:
    def add_sidecar(request: Mapping[str, Any]) -> dict[str, Any]:
        if not image:
            return _deny("No image specified by the sidecar-image parameter")
        name = "webhook-added-sidecar"
        if any(container["name"] == name for container in request["object"]["spec"]["containers"]):
            return {"allowed": True}
        added = {"image": image, "name": name, "resources": {}}
        return _patch({"op": "add", "path": "/spec/containers/-", "value": added})

    return add_sidecar


def deny_attach(request: Mapping[str, Any]) -> dict[str, Any]:
    options = request.get("object") or {}
    name = "to-be-attached-pod"
    if request.get("name") != name or not options.get("stdin") or options.get("container") != "container1":
        return {"allowed": True}
    return _deny(f"attaching to pod '{name}' is not allowed")


def admit_data(described: str, unwanted: str) -> Reviewer:
    """A reviewer that refuses objects with marked data. `described` and `unwanted` are parts of its message."""

    def admit(request: Mapping[str, Any]) -> dict[str, Any]:
        is_deletion = request["operation"] == "DELETE"
        mark = (request["oldObject" if is_deletion else "object"].get("data") or {}).get(_MARK)
        if is_deletion and mark == "webhook-nondeletable":
            return _deny(reason=f"the {described} cannot be deleted because it contains unwanted key and value")
        if not is_deletion and mark == "webhook-disallow":
            return _deny(reason=f"the {described} contains unwanted {unwanted}")
        return {"allowed": True}

    return admit


def advance_data(request: Mapping[str, Any]) -> dict[str, Any]:
    """Add the key of the next stage to the object's data."""
    data = request["object"].get("data") or {}
    for before, added in (("mutation-stage-1", "mutation-stage-2"), ("mutation-start", "mutation-stage-1")):
        if data.get(before) == "yes":
            return _patch({"op": "add", "path": f"/data/{added}", "value": "yes"})
    return {"allowed": True}


def admit_definitions(request: Mapping[str, Any]) -> dict[str, Any]:
    if (request["object"]["metadata"].get("labels") or {}).get(_MARK) == "webhook-disallow":
        return _deny("the crd contains unwanted label")
    return {"allowed": True}


def convert_all(review: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a ConversionReview: `hostPort` of stable.example.com/v1 is `host` and `port` of v2."""
    request = review["request"]
    converted = [_convert(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    problem = next((each for each in converted if isinstance(each, str)), "")
    result = {"status": "Failure", "message": problem} if problem else {"status": "Success"}
    answer = {"uid": request["uid"], "convertedObjects": [] if problem else converted, "result": result}
    return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": answer}


def _convert(obj: Mapping[str, Any], version: str) -> dict[str, Any] | str:
    """The object in a version, or the reason why it has none."""
    group = "stable.example.com"
    changed = {**obj, "apiVersion": version}
    match obj["apiVersion"], version:
        case (same, wanted) if same == wanted:
            return f"conversion from a version to itself should not call the webhook: {version}"
        case (f, t) if (f, t) == (f"{group}/v1", f"{group}/v2"):
            if "hostPort" in changed:
                parts = changed.pop("hostPort").split(":")
                if len(parts) != 2:
                    return f"invalid hostPort value `{obj['hostPort']}`"
                changed |= {"host": parts[0], "port": parts[1]}
            return changed
        case (f, t) if (f, t) == (f"{group}/v2", f"{group}/v1"):
            if "host" in changed or "port" in changed:
                changed["hostPort"] = f"{changed.pop('host', '')}:{changed.pop('port', '')}"
            return changed
    return f'unexpected conversion version "{version}"'
