"""Requests that the API server passes on to a server behind it: the `proxy` subresource and aggregated APIs.

subresource     pods, services and nodes: the target of a request, and its answer
aggregation/    APIs that other servers serve
routes          where a request goes, and what it carries
passing         a request on its way, as one of the next two:
forwarding      an HTTP request to a target and its response, both as streams
tunnels         a request that upgrades its connection (WebSocket, SPDY), as raw bytes
connections     addresses, TLS and errors of connections to targets
decompression   bodies with a content coding, changed piece by piece
targets         which address a name stands for
headers         which headers are passed on
urls, html      links in answers, changed so that they lead through the proxy
"""
