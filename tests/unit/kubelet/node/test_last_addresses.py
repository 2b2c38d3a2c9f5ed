"""The file with the addresses that were allocated last."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.node.last_addresses import read_last_addresses, write_last_addresses


def test_a_new_node_has_none(tmp_path):
    assert read_last_addresses(tmp_path) == ()


@pytest.mark.parametrize("last", [("10.244.1.9", "fd00:10:244:1::9"), ("10.244.1.9",), ()])
def test_shorter_addresses_replace_longer_ones(tmp_path, last):
    write_last_addresses(tmp_path, ("10.244.1.100", "fd00:10:244:1::ffff:ffff"))
    write_last_addresses(tmp_path, last)
    assert read_last_addresses(tmp_path) == last


def test_a_directory_that_cannot_be_written_is_logged(tmp_path, caplog):
    write_last_addresses(tmp_path / "missing", ("10.244.1.9",))
    assert "cannot write" in caplog.text
