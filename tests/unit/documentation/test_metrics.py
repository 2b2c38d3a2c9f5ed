"""Names of metrics in the source."""

from __future__ import annotations

from documentation import metrics

from tests.e2e import dashboards


def test_metrics_that_dashboards_read_are_on_the_page() -> None:
    """`ABSENT` has those that no part has, with the reason."""
    names = {metric.name for metric in metrics.found()}
    read = {name for group in dashboards.READ.values() for name in group}
    by_library = {name for name in read if name.startswith("process_")}
    composed = {name for name in read if name.startswith(("container_network_", "kubeproxy_sync_proxy_rules_iptables"))}
    failures = {name for name in read if "_sync_failures_" in name or "_restore_failures_" in name}
    assert read - names - by_library - composed - failures - set(dashboards.ABSENT) == set()


def test_a_name_is_listed_once() -> None:
    names = [metric.name for metric in metrics.found()]
    assert len(names) == len(set(names)) > 100
