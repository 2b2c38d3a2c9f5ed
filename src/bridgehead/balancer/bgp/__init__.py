"""Announcement of addresses as BGP routes: one session for each peer, each an ExaBGP process of its own.

    view, publications --routes.py--> routes of each peer --session.py--> commands --exabgp_process.py--> ExaBGP

| module | what is in it |
| --- | --- |
| `routes.py` | the routes of this node for each peer |
| `exabgp.py` | ExaBGP's configuration, commands and answers as text |
| `exabgp_process.py` | one ExaBGP as a child process, which runs `exabgp_main.py` |
| `session.py` | the session with one peer: its process, its routes, its retries |
| `bfd_sessions.py` | BFD sessions beside BGP sessions |
| `announcer.py` | all sessions of a node |

docs/decisions/0039-bgp.md has the reasons.
"""
