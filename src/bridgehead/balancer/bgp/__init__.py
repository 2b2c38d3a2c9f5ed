"""Announcement of addresses as BGP routes: one session for each peer, all of them in one ExaBGP process.

    view, publications --routes.py--> routes of each peer --session.py--> requests --exabgp_process.py--> ExaBGP

| module | what is in it |
| --- | --- |
| `routes.py` | the routes of this node for each peer |
| `exabgp.py` | sessions and routes as ExaBGP's text |
| `exabgp_messages.py` | messages between the speaker and its ExaBGP process |
| `exabgp_process.py` | the ExaBGP process, which runs `exabgp_main.py` |
| `session.py` | the session with one peer: its routes, its retries |
| `bfd_sessions.py` | BFD sessions beside BGP sessions |
| `announcer.py` | all sessions of a node |

docs/decisions/0039-bgp.md has the reasons.
"""
