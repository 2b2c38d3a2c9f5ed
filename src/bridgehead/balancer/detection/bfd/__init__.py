"""Bidirectional Forwarding Detection: whether a router still receives what this node sends, within milliseconds.

Asynchronous mode without authentication and without the echo function, over one hop (RFC 5881) or several (RFC 5883).

| module | what is in it |
| --- | --- |
| `packets.py` | control packets |
| `session.py` | the state machine of one session, by a clock that the caller passes |
| `packet_filter.py` | the socket filter against packets of unknown senders |
| `messages.py` | what the speaker and the engine exchange |
| `outbox.py` | changes of sessions that the speaker does not take yet |
| `engine.py` | all sessions of a node and their sockets, for the detector's loop |
"""
