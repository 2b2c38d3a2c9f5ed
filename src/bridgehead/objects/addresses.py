"""Addresses as texts."""

from __future__ import annotations


def join_host_port(host: str, port: int | str) -> str:
    """`10.0.0.1:6443`, `[fd00:10::1]:6443`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
