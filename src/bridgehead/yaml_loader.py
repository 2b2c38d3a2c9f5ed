"""The loader for all YAML that Bridgehead reads.

libyaml's loader takes a tenth of the time of PyYAML's own and less memory, but PyYAML may be built without it. Import
this module only where YAML is read: parts inside a cluster never load PyYAML.
"""

from __future__ import annotations

try:
    from yaml import CSafeLoader as Loader
except ImportError:
    from yaml import SafeLoader as Loader  # type: ignore[assignment]

__all__ = ["Loader"]
