"""Quantities: amounts of CPU, memory and the like, such as `250m`, `1.5Gi` or `2e3`.

Called by the validators of containers and nodes, and for a pod's QoS class. Source: Kubernetes
`k8s.io/apimachinery/pkg/api/resource`.
"""

from __future__ import annotations

import re
from decimal import Decimal

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i))?")
_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


def parse_quantity(value: str | int | float) -> Decimal | None:
    """The amount, or None when `value` is no quantity."""
    found = _FORM.fullmatch(str(value))
    if found is None:
        return None
    number, exponent, suffix = found.groups()
    return Decimal(number + exponent) if exponent else Decimal(number) * _SUFFIXES[suffix or ""]
