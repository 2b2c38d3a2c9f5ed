"""Pods for the tests of their rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.apiserver.resources.steps import Steps, from_yaml, table

Check = Callable[[str], list[str]]


@pytest.fixture
def pods() -> Steps:
    return Steps(table()["pods"])


@pytest.fixture
def refusal_of(pods: Steps) -> Check:
    """Return a function from the fields of a pod to the reasons why it can't be created.

    The pod has one container, `a`, unless the fields have others.
    """

    def check(text: str) -> list[str]:
        return pods.refusal(pod_with(from_yaml(text)))

    return check


def pod_with(fields: dict[str, Any]) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": "b"}], **fields}
    metadata = {"name": "web", "namespace": "default", **spec.pop("metadata", {})}
    return {"metadata": metadata, "spec": spec}
