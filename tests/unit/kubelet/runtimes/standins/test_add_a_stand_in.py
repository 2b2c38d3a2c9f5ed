"""The example of docs/recipes/add-a-stand-in.md: found by its image's name, and its answers."""

from bridgehead.kubelet.runtimes.images import resolver
from bridgehead.kubelet.runtimes.standins.http_session import HttpRequest
from bridgehead.kubelet.runtimes.standins.stream_server import Peer
from bridgehead.kubelet.runtimes.standins.table import STAND_INS
from tests.unit.recipes import example_of

REQUEST = HttpRequest("GET", "/", b"GET / HTTP/1.1", b"", Peer("10.0.0.1", 4321))


def test_the_example_of_the_recipe_is_found_and_answers(monkeypatch, tmp_path):
    example = example_of("add-a-stand-in.md")
    assert example.STAND_IN.name not in {stand_in.name for stand_in in STAND_INS}
    monkeypatch.setattr(resolver, "STAND_INS", (*STAND_INS, example.STAND_IN))
    found = resolver.resolve_image("hashicorp/http-echo:1.0", resolver.ImageDirectories(str(tmp_path)))
    assert found.stand_in is example.STAND_IN
    assert found.image.entrypoint == ("/http-echo",)
    assert example.echo_site(("http-echo", "-text=hello"))(REQUEST).body == b"hello\n"
    assert example.echo_site(("http-echo",))(REQUEST).body == b"hello-world\n"
