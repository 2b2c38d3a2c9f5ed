"""The service proxy: Services and EndpointSlices -> Frontends -> what changed in them -> the kernel's rules.

The path of a change through the modules:

    observe    cluster_objects follows the API; service_ranges the ServiceCIDRs
    compile    node_facts, reserved_addresses, backends, service_frontends, host_port_frontends -> frontends;
               address_texts
    compare    frontend_table (all Frontends, and the changes of an update)
    program    agent (the loop), programmer, bisection, refusals -> mode (the interface), mode_choice
               -> nftables/ iptables/ ipvs/ userspace/; commands (nft, iptables, ...), errors;
               node_listeners (sockets of the node's own processes), without_iptables (removal of KUBE-* chains by nft)
    afterwards guard (repairs rules that other programs changed), conntrack/ (removes flows to backends that are gone)
    report     operating/: metrics, health, healthCheckNodePort, Events, progress
    configure  config, config_reader; sysctls
    process    process; successor (detection of the kube-proxy that comes after this proxy)
"""
