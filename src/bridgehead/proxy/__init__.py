"""The service proxy: Services and EndpointSlices -> Frontends -> what changed in them -> the kernel's rules.

The way of a change, and where to look:

    in        agent follows the API -> services (what a Service means on this node), endpoints (whom it leads to)
              -> frontends (in words for the kernel); addresses, node
    differs   changes (the table of Frontends), mode (what a mode is)
    out       programmer, refusals -> modes -> nftables/, iptables/, ipvs/, userspace/ by commands; errors
    after     guard (others changed the rules), conntrack/ (flows that lead nowhere)
    told      operating/: metrics, health, healthCheckNodePort, Events, how far the node is
    settings  config, config_reader; sysctls
    whole     cli/proxy.py; bulk, memory
"""
