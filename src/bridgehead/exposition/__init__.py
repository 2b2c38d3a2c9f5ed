"""Pages of metrics in the format that a scraper asks for.

    choose(accept) -> Format;  render(registry, accept) -> (bytes, Content-Type);  new_registry(*collectors)

The formats are those of Go's client library, which Kubernetes' components, CoreDNS and MetalLB use: Prometheus' text
(0.0.4), its protobuf (delimited) and OpenMetrics. Families have no `_created` series, which that library does not write
either.
"""

from .build import build_info, new_registry
from .formats import Families, Format, choose, render

__all__ = ["Families", "Format", "build_info", "choose", "new_registry", "render"]
