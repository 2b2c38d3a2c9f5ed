"""HTTP: the server, and requests and responses as values.

server            the HTTPS server; `uvicorn_library` imports uvicorn without its command line
accepting         acceptance of connections, and the bound on those of unauthenticated clients
peer_protocol     a client's connection
client_authorities  the CA of a client's certificate: that of users or of front proxies
socket_protocol   WebSockets
tunnel            upgraded connections that the application takes over
upgrade_forwarding  upgraded connections that are passed on to another server
request_info      what a request asks for: verb, group, resource, namespace, name
user              the user of a request
negotiation       media types
request           request and response, as handlers get and return them
sending           headers, warnings and streams of responses; refusals of WebSockets
joined_writes     the head of a response, which leaves with the body's first piece
turns             turns of streams, so that many of them do not stop the event loop
socket_streams    watches and logs over WebSockets
piecewise         long bodies, made while they are sent
compression       gzip for large answers
unsent            the bound on bytes that wait for slow clients
worker            a thread for work that is too long for the event loop
"""
