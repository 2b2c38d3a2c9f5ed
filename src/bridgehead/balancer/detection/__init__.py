"""Failure detection: a small process beside each speaker that exchanges heartbeats with the other nodes.

The speaker starts the process before it imports what a speaker needs, and it ends with the speaker.

| module | what is in it |
| --- | --- |
| `engine.py` | the interface of the protocols in the process (heartbeats, BFD) |
| `process.py` | the process and its loop |
| `detector_messages.py` | messages between the speaker and the process |
| `detector.py` | the speaker's end |
| `heartbeat_packets.py` | heartbeats on the network: encoding, authentication |
| `membership.py` | which nodes are alive: the decision, on the caller's clock; the neighbours of each node |
| `bfd/` | BFD sessions with routers |
| `keepalived_leftovers.py` | the engine that removes what a killed speaker's keepalived has left |
| `heartbeats.py` | the engine of the heartbeats: sockets around `membership.py` |

Nothing here imports more than the standard library and `network`, so that the process is small and starts in
milliseconds. docs/decisions/0038-failure-detection.md has the reasons.
"""
