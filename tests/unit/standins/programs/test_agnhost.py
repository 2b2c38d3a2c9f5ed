"""The stand-in for agnhost: command lines, what its servers answer, and what its commands print."""

from __future__ import annotations

import base64
import random
import re
import signal
import socket
import ssl
import stat
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.kubelet.containers.grpc_health import BadPacket, HealthAnswer, health_request
from bridgehead.standins.programs.agnhost import reviews
from bridgehead.standins.programs.agnhost.commands import run
from bridgehead.standins.programs.agnhost.connect import connect
from bridgehead.standins.programs.agnhost.dialing import dial
from bridgehead.standins.programs.agnhost.flags import CommandLine, parse_command_line
from bridgehead.standins.programs.agnhost.guestbook import Guestbook
from bridgehead.standins.programs.agnhost.health_service import Health, HealthSession
from bridgehead.standins.programs.agnhost.mounttest import describe_mode, find_filesystem
from bridgehead.standins.programs.agnhost.netexec import answer_command, netexec_site, override, request_log
from bridgehead.standins.programs.agnhost.reports import find_settings, log_lines
from bridgehead.standins.programs.agnhost.small_servers import (
    find_served,
    listing_site,
    liveness_site,
    report_site,
    value_site,
)
from bridgehead.standins.programs.agnhost.tls_session import (
    LOCALHOST_CERTIFICATE,
    TlsSession,
    load_server_context,
)
from bridgehead.standins.programs.agnhost.webhooks import admission_site, conversion_site
from bridgehead.standins.programs.http_session import (
    Handler,
    HttpRequest,
    HttpResponse,
    HttpSession,
    LateResponse,
)
from bridgehead.standins.programs.stream_server import LateAnswer, OutputBuffer, Peer
from bridgehead.standins.standin import Launch

PEER = Peer("10.0.0.1", 4321, "10.244.1.2")


def answer(site: Handler, target: str, body: bytes = b"", method: str = "GET") -> HttpResponse:
    """Ask a site; a late response is computed."""
    given = site(HttpRequest(method, target, b"GET / HTTP/1.1\r\nHost: web:8080", body, PEER))
    return given.compute() if isinstance(given, LateResponse) else given


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ((), CommandLine("pause", {})),
        (("netexec", "--http-port=80"), CommandLine("netexec", {"http-port": "80"})),
        (
            ("netexec", "--http-port", "80", "--udp-port=81"),
            CommandLine("netexec", {"http-port": "80", "udp-port": "81"}),
        ),
        (("serve-hostname", "--tcp"), CommandLine("serve-hostname", {"tcp": "true"})),
        (("connect", "--timeout=3s", "web:80"), CommandLine("connect", {"timeout": "3s"}, ("web:80",))),
        (
            ("logs-generator", "-t", "10", "-d", "1s"),
            CommandLine("logs-generator", {"log-lines-total": "10", "run-duration": "1s"}),
        ),
        (("netexec", "--udp-port", "-1"), CommandLine("netexec", {"udp-port": "-1"})),
    ],
)
def test_command_lines(argv: tuple[str, ...], line: CommandLine) -> None:
    assert parse_command_line(argv) == line


def test_netexec_answers() -> None:
    site = netexec_site("web-0", {"COLOUR": "blue"})
    assert answer(site, "/hostname").body == b"web-0"
    assert answer(site, "/clientip").body == b"10.0.0.1:4321"
    assert answer(site, "/serverport").body == b"8080"
    assert answer(site, "/echo?msg=a%20b").body == b"a b"
    assert answer(site, "/echo?msg=a&code=503").status == 503
    assert answer(site, "/nothing").body.startswith(b"NOW: ")
    assert answer(site, "/shell?cmd=echo%20$COLOUR").body == b'{"output":"blue\\n"}'
    assert answer(site, "/shell?shellCommand=exit%203").body == b'{"error":"exit status 3"}'
    redirect = answer(site, "/redirect?location=/echo%3Fmsg%3Dx&code=307")
    assert (redirect.status, redirect.headers) == (307, (("Location", "/echo?msg=x"),))
    assert answer(override(site, "/echo?msg=fixed"), "/hostname", method="POST").body == b"fixed"
    with pytest.raises(SystemExit) as ended:
        answer(site, "/exit?code=7")
    assert ended.value.code == 7


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"hostname\n", b"web-0"), (b"hostName", b"web-0"), (b"echo a b", b"a b"), (b"clientip", b"10.0.0.1:4321")],
)
def test_netexec_answers_datagrams(data: bytes, expected: bytes) -> None:
    assert answer_command("web-0", data, PEER) == expected


def test_unknown_datagrams_get_no_answer() -> None:
    assert answer_command("web-0", b"what", PEER) is None


def test_a_dial_asks_over_udp_again_and_again() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.bind(("127.0.0.1", 0))

        def answer_twice() -> None:
            for number in range(2):
                request, sender = asked.recvfrom(100)
                asked.sendto(b"%s %d" % (request, number), sender)

        threading.Thread(target=answer_twice, daemon=True).start()
        host, port = asked.getsockname()
        values = {"host": host, "port": str(port), "protocol": "udp", "request": "hostname", "tries": "2"}
        late = dial(values)
        assert isinstance(late, LateResponse)
        assert late.compute().body == b'{"responses":["hostname 0","hostname 1"]}'


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"host": "web", "port": "80"}, b"request parameter not specified. <nil>\n"),
        ({"host": "web", "port": "80", "request": "x", "protocol": "icmp"}, b"unsupported protocol. icmp\n"),
        ({"host": "web", "port": "80", "request": "x", "tries": "many"}, b"tries parameter is invalid. many\n"),
        ({"host": "web", "port": "http", "request": "x"}, b"host and/or port param are invalid. http\n"),
    ],
)
def test_bad_dials_are_refused(values: dict[str, str], reason: bytes) -> None:
    given = dial(values)
    assert isinstance(given, HttpResponse)
    assert (given.status, given.body) == (400, reason)


def test_failed_dials_are_listed_as_errors() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        late = dial({"host": "127.0.0.1", "port": str(closed.getsockname()[1]), "request": "hostname", "tries": "2"})
        assert isinstance(late, LateResponse)
        answered = msgspec.json.decode(late.compute().body)
    assert list(answered) == ["errors"]
    assert len(answered["errors"]) == 2


def fail_to_resolve(*_: object, **__: object) -> None:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_a_connection_has_a_word_for_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"
        assert connect(CommandLine("connect", {"timeout": "3s"}, (endpoint,))) == "REFUSED"
        server.listen()
        assert connect(CommandLine("connect", {"timeout": "3s"}, (endpoint,))) == ""
    assert connect(CommandLine("connect", {}, ("web",))).startswith("UNKNOWN: ")
    assert connect(CommandLine("connect", {"protocol": "icmp"}, (endpoint,))).startswith("Unsupported protocol")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
        assert connect(CommandLine("connect", {"timeout": "10ms", "protocol": "udp"}, (endpoint,))) == "TIMEOUT"
    monkeypatch.setattr(socket, "getaddrinfo", fail_to_resolve)
    assert connect(CommandLine("connect", {}, ("web:80",))).startswith("DNS: ")


def test_porter_serves_its_variables() -> None:
    environment = {"SERVE_PORT_80": "<a href='/x'>", "SERVE_TLS_PORT_443": "b", "SERVE_UDP_PORT_53": "c", "PATH": "/"}
    assert sorted(find_served(environment)) == [
        ("http", 80, "<a href='/x'>"),
        ("https", 443, "b"),
        ("udp", 53, "c"),
    ]
    assert answer(value_site("<a href='/x'>", as_json=False), "/").content_type == "text/html; charset=utf-8"
    assert answer(value_site("foo", as_json=False), "/any") == HttpResponse(
        b"foo", content_type="text/plain; charset=utf-8"
    )
    given = answer(value_site("foo", as_json=True), "/", method="DELETE")
    assert (msgspec.json.decode(given.body), given.content_type) == (
        {"Method": "DELETE", "Body": "foo"},
        "application/json",
    )


def test_netexec_logs_requests(tmp_path: Path) -> None:
    """Tests of lifecycle hooks look for the request of the hook."""
    with (tmp_path / "log").open("wb") as file:
        output = OutputBuffer(file.fileno())
        log = request_log(output, lambda: 0.0)
        log(HttpRequest("GET", "/echo?msg=a%20b", b"", b"", PEER), 200, 3)
        output.flush()
    assert (tmp_path / "log").read_text() == "1970/01/01 00:00:00 GET /echo?msg=a b\n"


def test_directories_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a&b").mkdir()
    (tmp_path / "results").write_text("OK")
    (tmp_path / "a&b" / "index.html").write_text("front")
    site = listing_site(str(tmp_path))
    assert answer(site, "/").body == b'<pre>\n<a href="a%26b/">a&amp;b/</a>\n<a href="results">results</a>\n</pre>\n'
    assert answer(site, "/results").body == b"OK"
    assert answer(site, "/a&b/").body == b"front"
    assert answer(site, "/none/").status == 404


def test_liveness_fails_after_ten_seconds() -> None:
    now = [0.0]
    site = liveness_site(lambda: now[0])
    assert answer(site, "/healthz").body == b"ok"
    now[0] = 10.5
    assert answer(site, "/healthz").status == 500
    assert answer(site, "/started").status == 200
    assert answer(site, "/redirect?loc=%2Fhealthz").headers == (("Location", "/healthz"),)


def test_nettest_counts_reports() -> None:
    site = report_site("server")
    assert answer(site, "/write", b'{"Source": "prestop"}', "POST").body == b'{"Hostname":"server"}'
    assert msgspec.json.decode(answer(site, "/read").body)["Received"] == {"prestop": 1}
    assert answer(site, "/write", b"{}", "POST").status == 400
    assert answer(site, "/").status == 404


def test_the_health_service_answers_the_kubelets_probe() -> None:
    now = [0.0]
    health = Health("web", 10.0, lambda: now[0])

    def probe(service: str) -> str:
        session, reply = HealthSession(health, PEER), HealthAnswer()
        sent = health_request("web:5000", service, "kube-probe/1.36")
        for at in range(0, len(sent), 7):  # in pieces, as from a network
            reply.feed_untrusted(session.receive(sent[at : at + 7], draining=False))
        assert reply.is_complete
        return reply.status()

    assert probe("web") == "SERVING"
    with pytest.raises(BadPacket):
        probe("other")
    now[0] = 11.0
    assert probe("web") == "NOT_SERVING"
    assert answer(health.control, "/make-serving").status == 200
    assert probe("web") == "SERVING"
    assert answer(health.control, "/make-not-serving").status == 200
    assert probe("web") == "NOT_SERVING"
    session = HealthSession(health, PEER)
    session.receive(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n", draining=False)
    assert session.closing


def test_a_guestbook_keeps_and_reports_keys() -> None:
    book = Guestbook(6379)
    assert answer(book.answer, "/get?key=a").body == b'{"data":""}'
    assert answer(book.answer, "/set?key=a&value=1").body == b'{"message":"Updated"}'
    assert answer(book.answer, "/get?key=a").body == b'{"data":"1"}'
    assert answer(book.answer, "/register?host=127.0.0.1").body == b'{"data":{"a":"1"}}'
    assert answer(book.answer, "/set?value=1").status == 400
    assert answer(book.answer, "/guestbook?cmd=drop").status == 400
    assert answer(book.answer, "/guestbook?cmd=set").body == b"cannot set with empty key.\n"


def review(path: str, **request: Any) -> dict[str, Any]:
    """Send a review to the webhook, and return its response with the patch decoded."""
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", **request}}
    given = msgspec.json.decode(answer(admission_site("", lambda seconds: None), path, msgspec.json.encode(body)).body)
    assert (given["apiVersion"], given["kind"], given["response"].pop("uid")) == (*list(body.values())[:2], "u")
    response: dict[str, Any] = given["response"]
    if "patch" in response:
        response["patch"] = msgspec.json.decode(base64.b64decode(response["patch"]))
    return response


def test_webhooks_deny_what_is_marked() -> None:
    marked = {"metadata": {"labels": {"webhook-e2e-test": "webhook-disallow"}}, "spec": {"containers": []}}
    data = {"data": {"webhook-e2e-test": "webhook-disallow"}}
    kept = {"data": {"webhook-e2e-test": "webhook-nondeletable"}}
    pod = {"metadata": {}, "spec": {"containers": [{"name": "webhook-disallow"}]}}
    assert review("/pods", object=marked)["status"]["message"] == "the pod contains unwanted label;"
    assert review("/pods", object=pod)["status"]["message"] == "the pod contains unwanted container name;"
    assert review("/crd", object=marked)["status"]["message"] == "the crd contains unwanted label"
    for path, text in (("/configmaps", "configmap contains unwanted key and value"), ("/custom-resource", "custom")):
        assert text in review(path, operation="CREATE", object=data)["status"]["reason"]
        assert review(path, operation="DELETE", object=None, oldObject=data) == {"allowed": True}
        assert "cannot be deleted" in review(path, operation="DELETE", object=None, oldObject=kept)["status"]["reason"]
    assert review("/always-deny", object=pod)["status"]["message"] == "this webhook denies all requests"
    assert review("/always-allow-delay-5s", object=pod)["allowed"]
    attach = {"stdin": True, "container": "container1"}
    assert not review("/pods/attach", name="to-be-attached-pod", object=attach)["allowed"]
    assert review("/pods/attach", name="other", object=attach)["allowed"]


def test_webhooks_mutate() -> None:
    assert review("/mutating-configmaps", object={"data": {"mutation-start": "yes"}})["patch"] == [
        {"op": "add", "path": "/data/mutation-stage-1", "value": "yes"}
    ]
    both = {"data": {"mutation-start": "yes", "mutation-stage-1": "yes"}}
    assert review("/mutating-custom-resource", object=both)["patch"][0]["path"] == "/data/mutation-stage-2"
    pod = {"metadata": {"name": "webhook-to-be-mutated"}, "spec": {"containers": []}}
    assert review("/mutating-pods", object=pod)["patch"][0]["path"] == "/spec/initContainers"
    assert not review("/mutating-pods-sidecar", object=pod)["allowed"]
    added = reviews.sidecar_adder("busybox")({"object": pod})
    assert b'"path":"/spec/containers/-"' in base64.b64decode(added["patch"])
    for labels, operation in ({}, "add"), ({"a": "b"}, "add"), ({"added-label": "no"}, "replace"):
        assert review("/add-label", object={"metadata": {"labels": labels}})["patch"][0]["op"] == operation
    assert "patch" not in review("/add-label", object={"metadata": {"labels": {"added-label": "yes"}}})


def test_a_marked_pod_is_never_answered() -> None:
    waited: list[float] = []
    pod = {"metadata": {"labels": {"webhook-e2e-test": "wait-forever"}}, "spec": {"containers": []}}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "object": pod}}
    given = admission_site("", waited.append)(HttpRequest("POST", "/pods", b"", msgspec.json.encode(body), PEER))
    assert isinstance(given, LateResponse)
    given.compute()
    assert waited[0] > 60


def test_conversions() -> None:
    def convert(version: str, *objects: dict[str, Any]) -> dict[str, Any]:
        request = {"uid": "u", "desiredAPIVersion": f"stable.example.com/{version}", "objects": list(objects)}
        body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
        given = msgspec.json.decode(answer(conversion_site, "/crdconvert", msgspec.json.encode(body)).body)
        return dict(given["response"])

    old = {"apiVersion": "stable.example.com/v1", "hostPort": "web:80"}
    new = {"apiVersion": "stable.example.com/v2", "host": "web", "port": "80"}
    assert convert("v2", old)["convertedObjects"] == [new]
    assert convert("v1", new)["convertedObjects"] == [old]
    assert convert("v1", old)["result"]["status"] == "Failure"
    assert "invalid hostPort" in convert("v2", {**old, "hostPort": "web"})["result"]["message"]
    assert "unexpected" in convert("v3", old)["result"]["message"]


def test_commands_print_what_tests_compare(capfd: pytest.CaptureFixture[str]) -> None:
    launch = Launch(argv=("/agnhost-2", "entrypoint-tester", "override", "--arguments"), tag="", hostname="web-0")
    assert run(launch) == 0
    assert capfd.readouterr().out == "[/agnhost-2 entrypoint-tester override --arguments]\n"
    assert run(Launch(argv=("/agnhost", "unheard-of"), tag="", hostname="web-0")) == 1
    assert "unknown command 'unheard-of'" in capfd.readouterr().err
    for port in ("x", "65536"):
        assert run(Launch(argv=("/agnhost", "netexec", f"--http-port={port}"), tag="", hostname="web-0")) == 1
        assert capfd.readouterr().err.startswith("netexec: ")


@pytest.mark.parametrize(
    ("sent", "code", "printed"),
    [
        (b"abc", 0, "Received expected client data\nShutting down connection\nDone\n"),
        (b"abd", 3, "Expect to read 'abc', but got 'abd'. err=<nil>\n"),
        (b"a", 2, "Expected to read 3 bytes from client, but got 1 instead. err=EOF\n"),
    ],
)
def test_a_port_forward_tester_exchanges_data(
    sent: bytes, code: int, printed: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process goes on
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"BIND_PORT": str(port), "EXPECTED_CLIENT_DATA": "abc", "CHUNKS": "2", "CHUNK_SIZE": "3"}
    environment["CHUNK_INTERVAL"] = "1"
    received: list[bytes] = []

    def ask() -> None:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            received.append(client.makefile("rb").read())

    client = threading.Thread(target=ask)
    argv = ("/agnhost", "port-forward-tester")
    assert run(Launch(argv=argv, tag="", hostname="p", environment=environment, started=client.start)) == code
    client.join()
    assert received == [b"" if code else b"xxxxxx"]
    assert capfd.readouterr().out == f"Accepted client connection\n{printed}"


def test_a_port_forward_tester_needs_its_variables(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(Launch(argv=("/agnhost", "port-forward-tester"), tag="", hostname="p")) == 1
    assert capfd.readouterr().err == "port-forward-tester: Error parsing BIND_PORT ''\n"


def test_settings_of_resolv_conf() -> None:
    text = "nameserver 1.1.1.1\nsearch a.example b.example\nnameserver 2001:db8::1\noptions ndots:5\n"
    assert find_settings(text, "search") == ["a.example", "b.example"]
    assert find_settings(text, "nameserver") == ["1.1.1.1", "2001:db8::1"]


def test_generated_logs_have_numbers() -> None:
    lines = list(log_lines(30, random.Random(1)))
    assert [line.partition(" ")[0] for line in lines] == [str(number) for number in range(30)]
    pattern = r"\d+ (GET|POST|PUT) /api/v1/namespaces/(kube-system|default|ns)/pods/\w{3,4} \d{3}"
    assert all(re.fullmatch(pattern, line) for line in lines)


def test_mounttest_describes_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "data"
    launch = Launch(
        argv=("/agnhost", "mounttest", f"--new_file_0660={file}", f"--file_perm={file}", f"--file_mode={file}"),
        tag="",
        hostname="web-0",
    )
    assert run(launch) == 0
    assert capfd.readouterr().out == (
        f'content of file "{file}": mount-tester new file\n\n'
        f'mode of file "{file}": -rw-rw----\nperms of file "{file}": -rw-rw----\n'
    )
    assert run(msgspec.structs.replace(launch, argv=("/agnhost", "mounttest", "--file_content=/nothing"))) == 1


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (stat.S_IFREG | 0o644, "-rw-r--r--"),
        (stat.S_IFDIR | 0o1777, "dtrwxrwxrwx"),
        (stat.S_IFDIR | 0o2770, "dgrwxrwx---"),
        (stat.S_IFLNK | 0o777, "Lrwxrwxrwx"),
    ],
)
def test_modes_are_written_as_in_go(mode: int, text: str) -> None:
    assert describe_mode(mode) == text


def test_filesystems_are_found_by_device() -> None:
    mounts = "22 1 0:20 / /proc rw shared:5 - proc proc rw\n23 1 0:21 / /data rw - tmpfs tmpfs rw,size=1k\n"
    assert find_filesystem(mounts, "0:21") == "tmpfs"
    assert find_filesystem(mounts, "9:9") == ""


def late_site(request: HttpRequest) -> LateResponse:
    return LateResponse(lambda: HttpResponse(b"late"))


def test_late_answers_end_the_connection_after_earlier_ones() -> None:
    sites: list[Handler] = [lambda request: HttpResponse(b"early"), late_site]
    session = HttpSession(lambda request: sites[request.path == "/late"](request), PEER, "test", None)
    given = session.receive(b"GET / HTTP/1.1\r\n\r\nGET /late HTTP/1.1\r\n\r\n", draining=False)
    assert isinstance(given, LateAnswer)
    assert session.closing
    answers = given.compute()
    assert answers.index(b"early") < answers.index(b"Connection: close") < answers.index(b"late")


def test_requests_and_late_answers_are_encrypted() -> None:
    server = TlsSession(load_server_context(LOCALHOST_CERTIFICATE, ""), HttpSession(late_site, PEER, "test", None))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing)
    for _ in range(3):
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            sent = server.receive(outgoing.read(), draining=False)
            assert isinstance(sent, bytes)
            incoming.write(sent)
    client.write(b"GET / HTTP/1.1\r\n\r\n")
    given = server.receive(outgoing.read(), draining=False)
    assert isinstance(given, LateAnswer)
    incoming.write(given.compute())
    assert client.read().endswith(b"late")


def test_plain_text_ends_a_session_behind_tls() -> None:
    server = TlsSession(load_server_context(LOCALHOST_CERTIFICATE, ""), HttpSession(late_site, PEER, "test", None))
    server.receive(b"GET / HTTP/1.1\r\n\r\n", draining=False)
    assert server.closing
