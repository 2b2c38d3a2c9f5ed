"""The kernel's network objects, and system calls for namespaces and mounts. No other package opens netlink sockets.

| modules | what they do |
| --- | --- |
| `links`, `interface_addresses`, `own_addresses`, `gateways` | interfaces, addresses, routes |
| `rtnetlink_requests` | requests for these |
| `host_paths` | which link and source address packets to a host have |
| `link_states` | states of interfaces, as they change |
| `conntrack`, `conntrack_listing` | flows of connection tracking |
| `ipvs`, `ipvs_connections`, `ipset` | virtual servers, one connection of IPVS, IP sets |
| `ruleset`, `ruleset_events` | nf_tables: the ruleset's generation, notifications of changes |
| `untracked`, `spoofing` | two tables of nf_tables that end with their owner; `nft_requests` encodes the requests |
| `handover_tables`, `connection_search` | two more, for connections that other nodes know: `unknown_connections` |
| `flow_trace` | another one, for one flow that is traced, and the kernel's events about its packets |
| `netlink_socket`, `netlink_attributes`, `inet` | netlink itself |
| `rtnetlink_listing` | reads the routes of all tables, the links with their addresses |
| `packet_sockets` | Ethernet frames of one protocol |
| `listening_ports` | the ports on which processes listen |
| `forked_calls` | calls of functions in forked processes, which may enter other namespaces |
| `programs` | programs that print what the kernel has |
| `flow_lookup` | one flow in connection tracking, by its addresses |
| `closable` | the base class of sockets and tables |
| `syscalls` | namespaces, mounts, capabilities, names of processes |
| `uapi` | the constants of the kernel's headers |
"""
