"""MetalLB's and OpenELB's objects compiled to a `model.Configuration`, judged as a whole."""

from .compilation import Compiled, compile_configuration, compile_pools
from .inputs import ConfigurationObjects, NodeFacts, Rejection

__all__ = ["Compiled", "ConfigurationObjects", "NodeFacts", "Rejection", "compile_configuration", "compile_pools"]
