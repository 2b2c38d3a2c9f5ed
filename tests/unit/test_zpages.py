"""The pages /statusz and /flagz."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.zpages import ZPages, offered_forms

WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and "
    "is for debugging purposes only."
)


@pytest.fixture
def pages() -> ZPages:
    seconds = iter([1795232921.0, 1795232921.0 + 3723.9])
    return ZPages(
        "kube-apiserver", {"v": "0", "listen": "[127.0.0.1:6443]"}, ("/metrics", "/livez"), lambda: next(seconds)
    )


def test_people_get_texts(pages):
    for accept in ("", "*/*", "text/plain", "text/html, text/*;q=0.5", "application/json;q=0.1, */*"):
        assert pages.answer("/flagz", accept).body.decode() == (
            f"\nkube-apiserver flagz\n{WARNING}\n\nlisten=[127.0.0.1:6443]\nv=0\n"
        )
    response = pages.answer("/statusz", "")
    assert response.content_type == "text/plain; charset=utf-8"
    assert response.body.decode() == (
        f"\nkube-apiserver statusz\n{WARNING}\n\nStarted: Sat Nov 21 03:48:41 UTC 2026\nUp: 1 hr 02 min 03 sec\n"
        "Binary version: 1.36.0\nEmulation version: 1.36\nPaths: /flagz /livez /metrics /statusz\n"
    )


def test_programs_get_objects(pages):
    response = pages.answer("/statusz", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz")
    assert msgspec.json.decode(response.body) == {
        "kind": "Statusz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kube-apiserver"},
        "startTime": "2026-11-21T03:48:41Z",
        "uptimeSeconds": 3723,
        "binaryVersion": "1.36.0",
        "emulationVersion": "1.36",
        "paths": ["/flagz", "/livez", "/metrics", "/statusz"],
    }
    response = pages.answer("/flagz", "application/yaml;v=v1alpha1;g=config.k8s.io;as=Flagz")
    assert response.content_type == "application/yaml"
    assert msgspec.yaml.decode(response.body) == {
        "kind": "Flagz",
        "apiVersion": "config.k8s.io/v1alpha1",
        "metadata": {"name": "kube-apiserver"},
        "flags": {"listen": "[127.0.0.1:6443]", "v": "0"},
    }


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "application/json;v=v9;g=config.k8s.io;as=Statusz",
        "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
        "application/json;v=v1beta1;as=Statusz",
        "text/html",
    ],
)
def test_other_forms_are_not_offered(pages, accept):
    assert pages.answer("/statusz", accept) is None
    assert offered_forms("/statusz") == [
        "text/plain",
        "application/json;g=config.k8s.io;v=v1beta1;as=Statusz",
        "application/json;g=config.k8s.io;v=v1alpha1;as=Statusz",
        "application/yaml;g=config.k8s.io;v=v1beta1;as=Statusz",
        "application/yaml;g=config.k8s.io;v=v1alpha1;as=Statusz",
    ]
    assert offered_forms("/flagz")[1] == "application/json;g=config.k8s.io;v=v1beta1;as=Flagz"
