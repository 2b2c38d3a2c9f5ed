"""The environment of selectors of devices, and their limits.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `dynamic-resource-allocation/cel/compile.go`.
"""

from __future__ import annotations

from .environment import Environment, Program
from .errors import WrongResult
from .library.quantities import Quantity
from .types import ANY, BOOL, Field, Type, map_of, struct

# The most that one selector may cost.
MOST_COST = 1_000_000

_MOST_ENTRIES = 32
_DOMAIN, _ID, _DRIVER = Type("string", most=63), Type("string", most=32), Type("string", most=63)
_ATTRIBUTE = Type(ANY.kind, most=64)


def _by_name(value: Type) -> Type:
    """Return the type of values by domain and identifier."""
    return map_of(_DOMAIN, map_of(_ID, value, _MOST_ENTRIES), _MOST_ENTRIES)


# The type of the variable `device`. Attributes that are lists are an alpha feature in Kubernetes 1.36, and off.
DEVICE = struct(
    "kubernetes.DRADevice",
    {
        "driver": Field("driver", _DRIVER),
        "attributes": Field("attributes", _by_name(_ATTRIBUTE)),
        "capacity": Field("capacity", _by_name(Quantity.cel_type)),
        "allowMultipleAllocations": Field("allowMultipleAllocations", Type(BOOL.kind, most=1)),
    },
)
_ENVIRONMENT = Environment({"device": DEVICE}, structs={DEVICE.name: DEVICE}.get, has_bind=True)


def compile_selector(expression: str) -> Program:
    """Compile a selector, which returns a bool or a value of unknown type. Raises CompileError."""
    try:
        return _ENVIRONMENT.compile(expression, result=(BOOL, ANY))
    except WrongResult as error:
        problem = f"must evaluate to bool or the unknown type, not {error.found}"
        raise WrongResult(problem, error.found) from None
