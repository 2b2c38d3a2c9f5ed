"""Announcement of addresses as BGP routes: one session for each peer, all of them in one ExaBGP process.

    view, publications --routes.py--> routes of each peer --session.py--> requests --exabgp_process.py--> ExaBGP

| module | what is in it |
| --- | --- |
| `routes.py` | the routes of this node for each peer |
| `exabgp.py` | settings of sessions and routes as text, for the ExaBGP process |
| `exabgp_messages.py` | messages between the speaker and its ExaBGP process |
| `exabgp_process.py` | the ExaBGP process, as the speaker sees it |
| `exabgp_main.py` | its program; `exabgp_session.py`: one session there; `exabgp_objects.py`: ExaBGP's objects |
| `session.py` | the session with one peer: its routes, its retries |
| `bfd_sessions.py` | BFD sessions beside BGP sessions |
| `announcer.py` | all sessions of a node |

docs/decisions/0039-bgp.md has the reasons.
"""
