"""Errors of the balancer.

BalancerError
  ConfigurationInvalid   the objects contradict each other; the last valid configuration stays in force
"""

from __future__ import annotations


class BalancerError(Exception):
    """Base of the errors of this package."""


class ConfigurationInvalid(BalancerError):
    """The objects make no valid configuration. The text names the object and what to change, in one line."""
