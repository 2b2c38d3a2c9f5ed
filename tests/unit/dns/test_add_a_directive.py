"""The example of docs/recipes/add-a-dns-directive.md, read from a Corefile."""

import pytest

from bridgehead.dns.config import DnsConfig
from bridgehead.dns.corefile import Sources, read_corefile, reader
from bridgehead.dns.corefile.directives import DIRECTIVES
from bridgehead.dns.errors import ConfigInvalid
from tests.unit.recipes import example_of

COREFILE = ". {{\n kubernetes cluster.local\n {line}\n}}\n"


def test_the_example_of_the_recipe_is_parsed(monkeypatch):
    entry = {"local": example_of("add-a-dns-directive.md").LOCAL}
    assert not set(entry) & set(DIRECTIVES)
    monkeypatch.setattr(reader, "DIRECTIVES", {**DIRECTIVES, **entry})
    config, _ = read_corefile(COREFILE.format(line="local"), DnsConfig(), Sources())
    assert config.hosts[0].entries == (("127.0.0.1", ("localhost",)), ("::1", ("localhost",)))
    with pytest.raises(ConfigInvalid, match="line 3: usage: local"):
        read_corefile(COREFILE.format(line="local everything"), DnsConfig(), Sources())
