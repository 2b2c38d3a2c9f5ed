import socket
import threading

from bridgehead.testing import responses
from bridgehead.testing.targets import parse_url


def test_a_request_and_its_response():
    ours, theirs = socket.socketpair()
    received = []

    def serve():
        with theirs:
            while b'{"a": 1}' not in b"".join(received):
                received.append(theirs.recv(65536))
            theirs.sendall(b'HTTP/1.1 201 Created\r\nContent-Length: 7\r\nX-One: 1\r\n\r\n{"b":2}')

    thread = threading.Thread(target=serve)
    thread.start()
    url = parse_url("http://web:8080/items?q=1")
    response = responses.request(ours, url, "POST", {"Accept": "application/json"}, '{"a": 1}', None)
    thread.join()
    head, _, body = b"".join(received).partition(b"\r\n\r\n")
    line, *fields = head.split(b"\r\n")
    assert line == b"POST /items?q=1 HTTP/1.1"
    assert {b"Host: web:8080", b"Accept: application/json"} < set(fields)
    assert body == b'{"a": 1}'
    assert (response.status, response.headers["x-one"], response.text) == (201, "1", '{"b":2}')
    assert response.json() == {"b": 2}
    assert ours.fileno() == -1
