"""Text forms and families of addresses.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations


def join_host_port(host: str, port: int | str) -> str:
    """Return `10.0.0.1:6443` or `[fd00:10::1]:6443`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def ip_family(ip: str) -> str:
    """Return `IPv4` or `IPv6`, as in a Service's `ipFamilies` and an EndpointSlice's `addressType`."""
    return "IPv6" if ":" in ip else "IPv4"
