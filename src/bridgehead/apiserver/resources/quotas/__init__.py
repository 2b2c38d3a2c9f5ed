"""ResourceQuota and LimitRange (core/v1).

    resourcequotas    the entry of ResourceQuota, its rules and columns
    limitranges       the entry of LimitRange, its defaults, rules and columns

`apiserver/quotas` has what quotas count, and what admission does with both kinds.
"""

from .limitranges import RESOURCE as LIMIT_RANGES
from .resourcequotas import RESOURCE as RESOURCE_QUOTAS

__all__ = ["LIMIT_RANGES", "RESOURCE_QUOTAS"]
