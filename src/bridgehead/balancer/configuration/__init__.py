"""MetalLB's and OpenELB's objects compiled to a `compiled_configuration.Configuration`, judged as a whole."""

from .compilation import Compiled, compile_configuration, compile_for_start, compile_pools
from .inputs import ConfigurationObjects, NodeFacts, Rejection

__all__ = [
    "Compiled",
    "ConfigurationObjects",
    "NodeFacts",
    "Rejection",
    "compile_configuration",
    "compile_for_start",
    "compile_pools",
]
