"""Pages of metrics in the format that a scraper asks for.

    formats: choose(accept) -> Format;  render(registry, accept) -> (bytes, Content-Type)
    common_metrics: new_registry(*collectors)
    numbers: Histograms, counter_family(...), gauge_family(...)

The formats are those of Go's client library, which Kubernetes' components, CoreDNS and MetalLB use: Prometheus' text
(0.0.4), its protobuf (delimited) and OpenMetrics. Families have no `_created` series, which that library does not write
either.
"""
