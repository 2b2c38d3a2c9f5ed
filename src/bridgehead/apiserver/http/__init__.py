"""HTTP: the server, and requests and responses as values.

server            the HTTPS server
accepting         acceptance of connections, and the bound on those of unauthenticated clients
peer_protocol     a client's connection
socket_protocol   WebSockets
tunnel            upgraded connections that the application takes over
upgrade_forwarding  upgraded connections that are passed on to another server
paths             what a request asks for: verb, group, resource, namespace, name
handshake         refusal of a WebSocket
user              the user of a request
negotiation       media types
request           request and response, as handlers get and return them
sending           headers, warnings and streams of responses
socket_streams    watches and logs over WebSockets
piecewise         long bodies, made while they are sent
compression       gzip for large answers
unsent            the bound on bytes that wait for slow clients
worker            a thread for work that is too long for the event loop
"""
