"""Removal of stale flows from the kernel's connection tracking. docs/decisions/0012 has the rules and their reasons.

stale       decides which flows lead to a backend that is gone, what to list, and when
reconciler  lists and removes flows beside the syncs, by `network/conntrack.py`; `agent.py` runs it
"""
