"""The node: its configuration, its Node object and its Lease.

`settings` is the kubelet's configuration. `node_reporter` registers the Node, renews its Lease and corrects its status,
which `node_status` renders from `machine` (capacity and nodeInfo). `pod_addresses` allocates the addresses of pods
(`last_addresses` keeps the turn over restarts), `resolv_conf` parses and renders resolv.conf.
`pod_id_ranges` gives pods ranges of user ids, `image_collector` has images removed when the disk is full.
"""
