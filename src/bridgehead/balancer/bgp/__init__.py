"""Announcement of addresses as BGP routes: one session for each peer, all of them in one ExaBGP process.

    view, publications --announced_routes.py--> routes of a peer --session.py--> requests --exabgp_process.py--> ExaBGP

| module | what is in it |
| --- | --- |
| `announced_routes.py` | the routes of this node for each peer |
| `exabgp.py` | settings of sessions and routes as text, for the ExaBGP process |
| `exabgp_messages.py` | messages between the speaker and its ExaBGP process |
| `exabgp_process.py` | the ExaBGP process, as the speaker sees it |
| `exabgp_main.py` | its program |
| `exabgp_session.py`, `exabgp_objects.py` | one session there; ExaBGP's objects for it |
| `exabgp_outbox.py`, `exabgp_timers.py` | the messages that it has to send; its timers |
| `exabgp_sockets.py`, `exabgp_listening.py` | its connection; connections that peers make |
| `session.py` | the session with one peer: its routes, its retries |
| `session_reports.py` | metrics of sessions, and their part of the status page |
| `bfd_sessions.py` | BFD sessions beside BGP sessions |
| `announcer.py` | all sessions of a node |
| `moved_addresses.py`, `searches.py` | connections that routers give to other nodes when routes change |

docs/decisions/0039-bgp.md has the reasons.
"""
