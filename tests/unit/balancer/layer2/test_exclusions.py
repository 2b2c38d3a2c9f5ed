"""Interfaces that the ConfigMap metallb-excludel2 leaves out."""

from __future__ import annotations

import pytest

from bridgehead.balancer.layer2.exclusions import compile_patterns, parse_exclusions
from bridgehead.objects.core import ConfigMap

PUBLISHED = """announcedInterfacesToExclude: ["^docker.*", "^veth.*", "^lo$", "^kube-ipvs.*"]"""


def config_map(text: str | None) -> ConfigMap:
    return ConfigMap(data={} if text is None else {"excludel2.yaml": text})


@pytest.mark.parametrize(
    ("text", "excluded", "used"),
    [
        (PUBLISHED, ("docker0", "veth1234", "lo", "kube-ipvs0"), ("eth0", "lo1", "xveth")),
        ("announcedInterfacesToExclude:\n- eth[01]$\n- bond\n", ("eth0", "mybond0"), ("eth2", "eth10")),
        ("announcedInterfacesToExclude: []", (), ("eth0", "docker0")),
        ("announcedInterfacesToExclude:", (), ("eth0",)),
        ("", (), ("eth0", "docker0")),
        (None, (), ("eth0",)),
    ],
)
def test_names_are_left_out_that_a_pattern_finds(text, excluded, used):
    pattern = parse_exclusions(config_map(text))
    assert [name for name in (*excluded, *used) if pattern.search(name)] == list(excluded)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("announcedInterfacesToExclude: ['[']", "excludel2.yaml: a pattern is no regular expression: unterminated"),
        ("announcedInterfacesToExclude: eth0", "excludel2.yaml: Expected `array | null`, got `str`"),
        ("[unclosed", "excludel2.yaml: not YAML: "),
        ("- eth0", "excludel2.yaml: Expected `object`, got `array`"),
    ],
)
def test_what_cannot_be_read_has_a_reason(text, reason):
    with pytest.raises(ValueError, match="excludel2") as error:
        parse_exclusions(config_map(text))
    assert str(error.value).startswith(reason)


def test_no_pattern_finds_nothing():
    assert not compile_patterns(()).search("eth0")
