"""The lessons in the order of the tutorials, and the objects that all of them need.

affinity, cluster_ip, dns, endpoints, external_name, failures, headless, load_balancers, modes, node_port, policies,
variables

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Lesson

from . import (
    affinity,
    cluster_ip,
    dns,
    endpoints,
    external_name,
    failures,
    headless,
    load_balancers,
    modes,
    node_port,
    policies,
    variables,
)

LESSONS: tuple[Lesson, ...] = tuple(
    module.LESSON
    for module in (
        cluster_ip,
        endpoints,
        node_port,
        dns,
        variables,
        affinity,
        policies,
        modes,
        headless,
        external_name,
        load_balancers,
        failures,
    )
)

# The client comes after the Service, whose variables it is to have.
BASE: tuple[str, ...] = (
    "kubectl -n tour create deployment web --replicas=2 --port=80"
    " --image=registry.cn-beijing.aliyuncs.com/wangxiaochun/pod-test:v0.1",
    "kubectl -n tour expose deployment web --port=80",
    "kubectl -n tour run client --image=busybox:1.36 --restart=Never --command -- sleep infinity",
    "kubectl -n tour rollout status deployment web --timeout=180s",
    "kubectl -n tour wait pod client --for=condition=Ready --timeout=180s",
)
