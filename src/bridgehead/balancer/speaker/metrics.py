"""Metrics of a speaker, under MetalLB's names, read from the parts when the page is requested."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from bridgehead.balancer.layer2.responder import Responder
from bridgehead.client.metrics import CLIENT_METRICS
from bridgehead.exposition.common_metrics import new_registry

from .speaker_reconciler import SpeakerReconciler

Collect = Callable[[], Iterable[Metric]]


class SpeakerMetrics:
    """The metrics of one speaker, in a registry of its own."""

    def __init__(self, reconciler: SpeakerReconciler) -> None:
        self.registry = new_registry(CLIENT_METRICS)
        self._reconciler = reconciler
        self.add(self._speaker)

    def add(self, collect: Collect) -> None:
        """Add metrics that `collect` makes for each request of the page."""
        self.registry.register(_Collector(collect))

    def _speaker(self) -> Iterator[Metric]:
        announced = GaugeMetricFamily(
            "metallb_speaker_announced",
            "Services being announced from this node. This is desired state, it does not guarantee that the routing "
            "protocols have converged.",
            labels=("service", "protocol", "node", "ip"),
        )
        for held in self._reconciler.held:
            labels = (str(held.service), held.protocol, self._reconciler.view.this_node, str(held.address))
            announced.add_metric(labels, 1)
        yield announced
        yield CounterMetricFamily(
            "metallb_k8s_client_updates",
            "Number of k8s object updates that have been processed.",
            value=self._reconciler.update_count,
        )
        yield CounterMetricFamily(
            "metallb_k8s_client_update_errors",
            "Number of k8s object updates that failed for some reason.",
            value=self._reconciler.update_error_count,
        )
        yield GaugeMetricFamily(
            "metallb_k8s_client_config_loaded_bool",
            "1 if the MetalLB configuration was successfully loaded at least once.",
            value=bool(not self._reconciler.unready_reason),
        )
        yield GaugeMetricFamily(
            "metallb_k8s_client_config_stale_bool",
            "1 if running on a stale configuration, because the latest config failed to load.",
            value=bool(self._reconciler.configuration.error),
        )
        yield GaugeMetricFamily(
            "bridgehead_speaker_members",
            "Nodes whose speakers this one believes alive, this one included.",
            value=len(self._reconciler.view.members),
        )
        yield CounterMetricFamily(
            "bridgehead_speaker_takeovers",
            "Times this node took over addresses of nodes that died.",
            value=self._reconciler.takeovers.count,
        )


class _Collector:
    def __init__(self, collect: Collect) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def layer2_metrics(responder: Responder) -> Iterator[Metric]:
    """Yield the counters of layer 2."""
    counters = (
        ("requests_received", "Number of layer2 requests received for owned IPs", responder.received),
        ("responses_sent", "Number of layer2 responses sent for owned IPs in response to requests",
         responder.answered),
        ("gratuitous_sent", "Number of gratuitous layer2 packets sent for owned IPs as a result of failovers",
         responder.announced),
    )  # fmt: skip
    for name, text, counter in counters:
        yield _by_address(f"metallb_layer2_{name}", text, counter)
    dropped = CounterMetricFamily(
        "bridgehead_layer2_dropped_frames", "Number of layer2 frames received and not answered", labels=("reason",)
    )
    for reason, count in responder.dropped.items():
        dropped.add_metric((reason.value,), count)
    yield dropped


def _by_address(name: str, text: str, counter: Counter[bytes]) -> Metric:
    family = CounterMetricFamily(name, text, labels=("ip",))
    for packed, count in counter.items():
        family.add_metric((str(ipaddress.ip_address(packed)),), count)
    return family
