"""The kubelet's HTTPS server on port 10250, whose client is the API server.

`kubelet_server` has the routes, `authorization` checks client certificates. `remote_command` is the protocol of exec
and attach, `port_forward` and `port_channels` are those of port-forward, with SPDY and without; `port_copy` is one
forwarded connection. `channels` has the streams in a WebSocket, `stream_channels` those of SPDY; `upgrades` makes a
request such a connection. `node_pages`, `metrics_pages` and `system_logs` are about the node.
"""
