"""The example of docs/recipes/add-a-stand-in.md: found by its image's name, loaded, and its answers."""

import re
import sys

from bridgehead.kubelet.runtimes.image_resolver import ImageDirectories, resolve_image
from bridgehead.standins import table
from bridgehead.standins.programs.http_session import HttpRequest
from bridgehead.standins.programs.stream_server import Peer
from bridgehead.standins.standin import StandIn, load_program
from tests.unit.recipes import code_of, example_of

REQUEST = HttpRequest("GET", "/", b"GET / HTTP/1.1", b"", Peer("10.0.0.1", 4321))


def test_the_example_of_the_recipe_is_found_and_answers(monkeypatch, tmp_path):
    example = example_of("add-a-stand-in.md")
    stand_in = eval(code_of("add-a-stand-in.md", 1), {"StandIn": StandIn, "re": re})
    assert stand_in.name not in {each.name for each in table.STAND_INS}
    monkeypatch.setattr(table, "STAND_INS", (*table.STAND_INS, stand_in))
    found = resolve_image("hashicorp/http-echo:1.0", ImageDirectories(str(tmp_path)))
    assert found.stand_in is stand_in
    assert found.image.entrypoint == ("/http-echo",)
    assert stand_in is not None
    monkeypatch.setitem(sys.modules, "bridgehead.standins.programs.http_echo", example)
    assert load_program(stand_in.programs["http-echo"]) is example.serve
    assert example.echo_site(("http-echo", "-text=hello"))(REQUEST).body == b"hello\n"
    assert example.echo_site(("http-echo",))(REQUEST).body == b"hello-world\n"
