"""The ConfigMaps and Secrets that a pod refers to."""

from __future__ import annotations

import msgspec

from bridgehead.kubelet.volumes.referenced_objects import Reference, references_of
from bridgehead.objects.core import Pod


def pod(**spec):
    meta = {"name": "p", "namespace": "ns", "labels": {"b": "2", "a": 'x"y'}}
    return msgspec.convert({"metadata": meta, "spec": spec}, Pod)


def test_references_of_a_pod_are_found():
    found = references_of(
        pod(
            volumes=[
                {"name": "1", "configMap": {"name": "cm1"}},
                {"name": "2", "secret": {"secretName": "s1"}},
                {"name": "3", "projected": {"sources": [{"configMap": {"name": "cm2"}}, {"secret": {"name": "s2"}}]}},
                {"name": "4", "emptyDir": {}},
            ],
            initContainers=[
                {"name": "i", "envFrom": [{"configMapRef": {"name": "cm3"}}, {"secretRef": {"name": "s3"}}]}
            ],
            containers=[
                {
                    "name": "c",
                    "env": [
                        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm4", "key": "k"}}},
                        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s4", "key": "k"}}},
                        {"name": "C", "value": "x"},
                    ],
                }
            ],
        )
    )
    maps = {Reference("ConfigMap", "ns", f"cm{n}") for n in range(1, 5)}
    assert found == maps | {Reference("Secret", "ns", f"s{n}") for n in range(1, 5)}
