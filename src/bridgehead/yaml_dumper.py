"""The form of all YAML that Bridgehead sends: pages and objects for clients that accept YAML.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations


def dump_yaml(value: object) -> bytes:
    """Return a value as YAML with sorted keys. PyYAML is loaded by the first call: few clients ask for YAML."""
    import yaml

    text: str = yaml.safe_dump(value, default_flow_style=False, allow_unicode=True)
    return text.encode()
