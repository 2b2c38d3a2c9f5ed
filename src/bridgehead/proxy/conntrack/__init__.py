"""Flows that lead nowhere go out of the kernel's connection tracking. docs/decisions/0012 says which, and why.

`stale` decides, pure: which flows lead to a backend that is gone, what to list for that, and when. `keeper` does it
beside the syncs, by `network/conntrack.py`; `agent.py` runs it.
"""
