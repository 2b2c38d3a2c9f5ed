"""docs/reference/metrics.md: metrics of all parts, found in the source by their names and texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from .source import Module, constants_of, modules, text_of
from .tables import code, escaped, made_by, table

_NAME = re.compile(r"[a-z{][\w{}]*_[\w{}]+")
# The beginnings of the names of a module's metrics, where the code adds them.
_PREFIXES = {
    ("proxy/operating/metrics.py", "self"): "kubeproxy_",
    ("balancer/controller/metrics.py", "self"): "metallb_k8s_client_",
    ("balancer/controller/metrics.py", "tuple"): "metallb_allocator_",
    ("balancer/speaker/metrics.py", "tuple"): "metallb_layer2_",
    ("kubelet/metrics/pods.py", "tuple"): "kubelet_volume_stats_",
}
_COUNTERS = {"Counter", "CounterMetricFamily", "by_type", "_counters", "_counter", "_codes"}
_HISTOGRAMS = {"Histogram", "Histograms", "HistogramMetricFamily", "_histogram"}

_TITLES = {"client": "Work queues, and clients of an API server", "exposition": "All parts"}

_INTRODUCTION = """\
[Metrics](../metrics.md) has where each part serves them. Every part also has `process_*`, and a client of an
API server `rest_client_*`. `{...}` stands for a part of a name that differs.

"""


class Metric(NamedTuple):
    """A row of the page."""

    part: str
    name: str
    type: str
    text: str


def found() -> list[Metric]:
    """Return the metrics of all parts."""
    metrics = {metric.name: metric for module in modules() for metric in _metrics_of(module)}
    return sorted(metrics.values())


def _metrics_of(module: Module) -> Iterator[Metric]:
    if "prometheus" not in module.text and "exposition" not in module.text:
        return
    constants = {
        name: text for name, text in constants_of(module.tree).items() if name.lower().strip("_") in ("prefix", "name")
    }
    for node in ast.walk(module.tree):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id="prefix"), *_])], value=ast.Tuple(elts=[value, *_])):
                constants["prefix"] = text_of(value) or ""
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(args=[first, second, *_]):
                maker = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                owner = "self" if isinstance(node.func, ast.Attribute) else ""
            case ast.Tuple(elts=[first, second, *_]):
                maker, owner = "", "tuple"
            case _:
                continue
        name, text = text_of(first, constants), text_of(second)
        if name is None or text is None or " " not in text:
            continue
        prefix = _PREFIXES.get((module.path, owner), "")
        if (owner == "tuple" and not prefix) or not _NAME.fullmatch(prefix + name):
            continue
        kind = _type_of(name, maker, prefix)
        ending = "_total" if kind == "counter" and not name.endswith("_total") else ""
        yield Metric(module.part, prefix + name + ending, kind, text)


def _type_of(name: str, maker: str, prefix: str) -> str:
    if maker in _HISTOGRAMS:
        return "histogram"
    is_gauge = maker.lower().lstrip("_").startswith("gauge") or (not maker and prefix != "metallb_layer2_")
    is_counter = maker in _COUNTERS or prefix == "metallb_layer2_" or name.endswith("_total")
    return "counter" if is_counter and not is_gauge else "gauge"


def render_page() -> str:
    """Return the page."""
    parts = ["# Names of metrics\n\n", made_by("metrics"), _INTRODUCTION]
    by_part: dict[str, list[Metric]] = {}
    for metric in found():
        by_part.setdefault(metric.part, []).append(metric)
    for part, metrics in by_part.items():
        part = _TITLES.get(part, part)
        rows = ((code(metric.name), metric.type, escaped(metric.text.rstrip("."))) for metric in metrics)
        parts += [f"## {part}\n\n", table(("name", "type", ""), rows), "\n"]
    return "".join(parts).rstrip("\n") + "\n"
