"""Removal of stale flows from the kernel's connection tracking. docs/decisions/0012 has the rules and their reasons.

stale       decides what to scan, and when: reasons
scan        decides what one scan lists, and which of the listed flows lead to a backend that is gone
reconciler  lists and removes flows beside the syncs, by `network/conntrack.py`; `agent.py` runs it
"""
