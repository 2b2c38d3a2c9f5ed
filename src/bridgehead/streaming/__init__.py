"""The protocols and connections of exec, attach and port-forward, for both ends.

websocket      frames of a WebSocket, the server's side
spdy           frames of SPDY
byte_stream    a connection that a request has upgraded, as a stream of bytes
socket_stream  a connection to another server, as a stream of bytes
"""
