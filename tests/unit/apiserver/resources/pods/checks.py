"""Pods for the tests of their rules."""

from __future__ import annotations

from typing import Any

from tests.unit.apiserver.resources.steps import Steps, from_yaml, table


def new_steps() -> Steps:
    return Steps(table()["pods"])


def refusal_of(text: str) -> list[str]:
    """Return the reasons why a pod with these fields can't be created.

    The pod has one container, `a`, unless the fields have others.
    """
    return new_steps().refusal(pod_with(from_yaml(text)))


def pod_with(fields: dict[str, Any]) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": "b"}], **fields}
    metadata = {"name": "web", "namespace": "default", **spec.pop("metadata", {})}
    return {"metadata": metadata, "spec": spec}
