"""The kernel's network objects; nobody else speaks netlink.

`links` is for what is done once, by pyroute2. What is done often is encoded by hand: `netlink` (a socket, messages),
`rtnetlink` (wiring a pod), `addresses`, `own_addresses`, `ipvs`, `ipset`, `conntrack`, and of nf_tables `ruleset`,
`ruleset_events`, `untracked` and `spoofing`. `syscalls` has namespaces and mounts.
"""
