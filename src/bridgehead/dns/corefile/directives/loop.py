"""The directive `loop`: upstreams that are this server are never asked, with or without it.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.corefile.draft import ServerBlock, Spec, ignore

LOOP: Spec[ServerBlock] = Spec("loop", "upstreams that are this server are never asked", ignore)
