"""Every metric that published dashboards read is there, or its absence has a reason."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import Lab, Namespace, curl, eventually
from .dashboards import ABSENT, READ


def names_of(page: str) -> set[str]:
    """The names of families in a page, also of those without a value yet."""
    return set(re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE))


def page(lab: Lab, part: str) -> str:
    """The page of a part: `part` is a key of `READ`."""
    name, _, subpage = part.partition("/")
    if name in ("apiserver", "kubelet"):
        prefix = "/api/v1/nodes/node1/proxy" if name == "kubelet" else ""
        done = lab.kubectl("get", "--raw", f"{prefix}/metrics{f'/{subpage}' if subpage else ''}")
        return done.stdout
    if name == "kube-proxy":
        return curl(lab, "http://127.0.0.1:10249/metrics", node="node1").stdout
    address = {"controllers": "127.0.0.1:10257", "coredns": "10.96.0.10:9153"}[name]
    return curl(lab, f"http://{address}/metrics").stdout


@pytest.mark.parametrize("part", READ)
def test_published_dashboards_find_their_metrics(lab: Lab, ns: Namespace, part: str) -> None:
    if part == "kubelet/probes":  # of a pod with a probe that has run
        ns.apply(json.dumps(PROBED))
        ns.ready("probed")
    wanted = {name for name in READ[part] if name not in ABSENT and f"{part}/{name.partition('_')[0]}" not in ABSENT}
    if part == "kubelet/probes":  # they come with the first probe
        eventually(lambda: wanted <= names_of(page(lab, part)))
    assert wanted - names_of(page(lab, part)) == set()
    assert not {name for name in names_of(page(lab, part)) if name.endswith("_created")}


def test_absent_metrics_have_a_reason() -> None:
    read = {name for names in READ.values() for name in names}
    assert [name for name in ABSENT if name not in read and "/" not in name] == []


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("*/*", "text/plain; version=0.0.4"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text; version=1.0.0"),
        (
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
            "application/vnd.google.protobuf",
        ),
    ],
)
@pytest.mark.parametrize("url", ["http://127.0.0.1:10257/metrics", "http://10.96.0.10:9153/metrics"])
def test_a_scraper_gets_the_format_that_it_asks_for(lab: Lab, url: str, accept: str, content_type: str) -> None:
    answer = lab.inside("curl", "-s", "-o", "/dev/null", "-w", "%{content_type}", "-H", f"Accept: {accept}", url)
    assert answer.stdout.startswith(content_type)


PROBED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "probed"},
    "spec": {
        "nodeName": "node1",
        "containers": [
            {
                "name": "web",
                "image": "nginx",
                "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1},
            }
        ],
    },
}
