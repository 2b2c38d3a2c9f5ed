"""Features of a lab by the machine's abilities: address families, a DNS on each node."""

from __future__ import annotations

import pytest

from bridgehead.lab.errors import LabError, Unsupported
from bridgehead.lab.host import choose_ip_family, choose_node_dns
from bridgehead.lab.plan import LabConfig

LACK = "this kernel has no IPv6"


def config(family):
    return LabConfig(name="lab", nodes=1, port=6443, ip_family=family)


@pytest.mark.parametrize(
    ("wanted", "before", "lack", "chosen"),
    [
        (None, None, "", "dual"),
        (None, None, LACK, "ipv4"),
        ("ipv4", None, "", "ipv4"),
        ("ipv4", None, LACK, "ipv4"),
        ("ipv6", None, "", "ipv6"),
        (None, "ipv4", "", "ipv4"),  # its Services have their addresses
        (None, "ipv6", "", "ipv6"),
        ("dual", "dual", "", "dual"),
    ],
)
def test_the_ip_family_is_requested_stored_or_detected(wanted, before, lack, chosen):
    assert choose_ip_family(wanted, before and config(before), lack) == chosen


@pytest.mark.parametrize(
    ("wanted", "before", "lack", "error", "message"),
    [
        ("dual", None, LACK, Unsupported, r"cannot have IPv6 \(this kernel has no IPv6\)"),
        ("ipv6", None, LACK, Unsupported, "--ip-family ipv4"),
        (None, "dual", LACK, Unsupported, "this kernel has no IPv6"),
        ("ipv4", "dual", "", LabError, "was made with --ip-family dual"),
        ("dual", "ipv4", LACK, LabError, "was made with --ip-family ipv4"),
    ],
)
def test_missing_kernel_features_are_reported_in_one_line(wanted, before, lack, error, message):
    with pytest.raises(error, match=message) as caught:
        choose_ip_family(wanted, before and config(before), lack)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "before", "kernel", "chosen"),
    [
        (None, None, "6.18.44-generic", False),
        (None, None, "5.7.0-rc1", False),
        (None, None, "5.6.19", True),
        (None, None, "4.19.0-27-amd64", True),
        (None, None, "unheard of", False),
        (True, None, "6.1.0", True),
        (False, None, "5.4.0", False),
        (None, True, "6.1.0", True),
        (None, False, "5.4.0", False),
        (False, True, "5.4.0", False),
    ],
)
def test_node_dns_is_enabled_on_request_or_by_an_old_kernel(wanted, before, kernel, chosen):
    lab = None if before is None else LabConfig(name="lab", nodes=1, port=6443, node_dns=before)
    assert choose_node_dns(wanted, lab, kernel) is chosen
