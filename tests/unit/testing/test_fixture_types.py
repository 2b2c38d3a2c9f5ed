"""Manifests as `apply` takes them; e2e/test_testing_plugin.py has what it does with them."""

import asyncio
from typing import Any

import pytest

from bridgehead.testing.fixture_types import Apply
from bridgehead.testing.manifests import UnusableManifest

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return the kinds of the objects that `apply` would apply, for a test's file in this directory."""
    elsewhere = tmp_path / "working"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    applied: list[Any] = []

    async def apply_all(client, objects, namespace, known):
        applied.extend(objects)
        return []

    class Cluster:
        def call(self, work, seconds):
            return asyncio.run(work(None))

    monkeypatch.setattr("bridgehead.testing.applying.apply_all", apply_all)
    cluster: Any = Cluster()

    def load(*manifests):
        applied.clear()
        Apply(cluster, "ns", tmp_path, {})(*manifests)
        return [each["kind"] for each in applied]

    return load


def test_values_and_texts(load):
    assert load(POD) == ["Pod"]
    assert load([POD, {"kind": "List", "items": [POD]}], "kind: Service\n") == ["Pod", "Pod", "Service"]


def test_paths(load, tmp_path):
    (tmp_path / "beside.yaml").write_text("kind: Service\n---\nkind: Secret\n")
    (tmp_path / "working" / "here.json").write_text('{"kind": "Node"}')
    assert load("beside.yaml") == ["Service", "Secret"]
    assert load("here.json", tmp_path / "beside.yaml") == ["Node", "Service", "Secret"]


def test_directories(load, tmp_path):
    for name in ("b.yml", "a.yaml", "README.md", "c.json"):
        (tmp_path / name).write_text(f"kind: {name.partition('.')[0]}")
    assert load(tmp_path) == ["a", "b", "c"]


def test_errors_name_the_file(load, tmp_path):
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(UnusableManifest, match=r"bad\.yaml: yaml: "):
        load("bad.yaml")
    with pytest.raises(FileNotFoundError):
        load("no.yaml")
