"""Announcement of addresses by VRRP, by a keepalived that the speaker configures.

    publications --address_groups.py--> groups --keepalived.py--> configuration --keepalived_process.py--> keepalived

| module | what is in it |
| --- | --- |
| `address_groups.py` | groups of addresses, their virtual router ids and priorities |
| `masters.py` | which node should be the master of an address, and which one was before |
| `change_order.py` | which changes of groups wait until the next master is there |
| `keepalived.py` | keepalived's configuration, and its notifications, as text |
| `advertisement.py` | the advertisement of a master that resigns |
| `keepalived_process.py` | keepalived as a child process, which `keepalived_main.py` starts |
| `announcer.py` | the announcer, and what takes its place without keepalived |

docs/decisions/0040-vrrp.md has the reasons.
"""
