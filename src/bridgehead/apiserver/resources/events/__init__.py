"""Event: core/v1 (`core_events`), which is stored, and events.k8s.io/v1 (`events`), another form of the same objects.

Other packages import from here.
"""

from .core_events import RESOURCE as CORE_EVENTS
from .events import RESOURCE as EVENTS

__all__ = ["CORE_EVENTS", "EVENTS"]
