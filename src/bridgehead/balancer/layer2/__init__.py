"""Announcement by ARP and IPv6 neighbour discovery: one node answers for an address.

| module | what is in it |
| --- | --- |
| `election.py` | which node holds which address: the decision of all speakers alike |
| `arp.py`, `ndp.py` | packets: encoding and decoding |
| `answers.py` | what to answer to a packet, packets that conflict, and the reasons to drop one |
| `announcement_schedule.py` | when gratuitous announcements are sent |
| `address_conflicts.py` | other machines with an address of this node: which are reported, and when it is defended |
| `interfaces.py`, `exclusions.py` | the interfaces that announcements use, and the ConfigMap that leaves some out |
| `strict_arp.py` | sysctls for kube-proxy's mode ipvs |
| `responder.py` | the sockets |
| `announcer.py` | the `Announcer` of the speaker |
"""
