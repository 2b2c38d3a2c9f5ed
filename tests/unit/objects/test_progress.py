"""Progress of proxies, written to Leases and read back."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.objects.coordination import Lease
from bridgehead.objects.meta import ObjectKey, ObjectMeta, OwnerReference, version_number
from bridgehead.objects.names import check_dns1123_subdomain
from bridgehead.objects.progress import (
    LABEL,
    LABEL_VALUE,
    LEASE_SECONDS,
    UNKNOWN_MODE,
    ModeInUse,
    Versions,
    find_behind,
    latest_version,
    lease_changes,
    lease_name,
    new_lease,
    read_progress,
)

NOW = 1_700_000_000.0


MODE = ModeInUse("nftables", "ipvs", "this kernel has no IPVS")


def lease(node, programmed, at=NOW):
    return msgspec.convert(new_lease(node, programmed, at, None, mode=MODE), Lease)


@given(st.builds(Versions, st.integers(0, 2**63), st.integers(0, 2**63)))
def test_progress_is_read_as_it_was_written(programmed):
    progress = read_progress(lease("node1", programmed))
    assert progress == ("node1", programmed, NOW, NOW + LEASE_SECONDS, (), MODE)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (MODE, MODE),
        (ModeInUse("ipvs", "ipvs"), ModeInUse("ipvs", "ipvs")),
        (UNKNOWN_MODE, UNKNOWN_MODE),
        (ModeInUse("nftables", "x" * 5000, "y" * 5000), ModeInUse("nftables", "x" * 1000, "y" * 1000)),
    ],
)
def test_the_mode_is_read_as_it_was_written_and_bounded(written, read):
    found = msgspec.convert(new_lease("node1", Versions(), NOW, None, mode=written), Lease)
    progress = read_progress(found)
    assert progress is not None
    assert progress.mode == read
    changes = lease_changes("node1", Versions(), NOW, mode=written)["metadata"]["annotations"]
    assert (changes["bridgehead/proxy-mode-problem"] is None) == (not written.problem), "an earlier one is removed"


@pytest.mark.parametrize(("count", "named"), [(0, 0), (1, 1), (3, 3), (1000, 100)])
def test_rejected_services_are_named(count, named):
    refused = [ObjectKey("x", f"s{number:04}") for number in reversed(range(count))]
    written = msgspec.convert(new_lease("node1", Versions(5, 7), NOW, None, refused), Lease)
    progress = read_progress(written)
    assert progress is not None
    assert progress.refused == tuple(f"x/s{number:04}" for number in range(named))
    changes = lease_changes("node1", Versions(5, 7), NOW, refused)["metadata"]["annotations"]
    assert (changes["bridgehead/services-refused"] is None) == (count == 0), "an earlier annotation must be removed"


def test_a_lease_belongs_to_its_node():
    owner = OwnerReference(api_version="v1", kind="Node", name="node1", uid="u1")
    written = new_lease("node1", Versions(), NOW, owner)
    [reference] = written["metadata"]["ownerReferences"]
    assert reference == {"apiVersion": "v1", "kind": "Node", "name": "node1", "uid": "u1"}
    assert written["metadata"]["labels"] == {LABEL: LABEL_VALUE}


@pytest.mark.parametrize("length", [1, 63, 241, 242, 243, 253])
def test_a_lease_name_fits_for_any_node_name(length):
    nodes = ["a" * (length - 1) + last for last in "bc"]
    names = [lease_name(node) for node in nodes]
    assert not any(check_dns1123_subdomain(name) for name in names)
    assert len(set(names)) == 2


def test_a_long_name_is_not_cut_after_a_dot():
    node = ".".join(["a" * 8] * 28)[:253].rstrip(".")
    for shorter in range(20):
        assert check_dns1123_subdomain(lease_name(node[: 253 - shorter].rstrip("."))) == []


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"spec": {"holderIdentity": "node1"}},
        {"spec": {"renewTime": "2026-11-21T02:35:22.000123Z"}},
        {"spec": {"holderIdentity": "node1", "renewTime": "2026-11-21T02:35:22.000123Z"}},
        {
            "metadata": {"annotations": {"bridgehead/services-programmed": "1"}},
            "spec": {"holderIdentity": "node1", "renewTime": "2026-11-21T02:35:22.000123Z"},
        },
        {
            "metadata": {
                "annotations": {"bridgehead/services-programmed": "1", "bridgehead/endpointslices-programmed": "x"}
            },
            "spec": {"holderIdentity": "node1", "renewTime": "2026-11-21T02:35:22.000123Z"},
        },
        {
            "metadata": {
                "annotations": {"bridgehead/services-programmed": "1", "bridgehead/endpointslices-programmed": "2"}
            },
            "spec": {"holderIdentity": "node1", "renewTime": "yesterday"},
        },
    ],
)
def test_other_leases_have_no_progress(document):
    assert read_progress(msgspec.convert(document, Lease)) is None


@pytest.mark.parametrize(
    ("leases", "behind"),
    [
        ([], []),
        ([lease("a", Versions(5, 7))], []),
        ([lease("a", Versions(4, 7))], ["a"]),
        ([lease("a", Versions(5, 6))], ["a"]),
        ([lease("a", Versions(9, 9)), lease("c", Versions(0, 0)), lease("b", Versions(5, 0))], ["b", "c"]),
        ([lease("a", Versions(0, 0), NOW - LEASE_SECONDS)], []),  # dead
        ([lease("a", Versions(0, 0), NOW - LEASE_SECONDS + 1)], ["a"]),
        ([Lease(metadata=ObjectMeta(name="kube-scheduler"))], []),
    ],
)
def test_nodes_behind_a_version_are_found(leases, behind):
    assert [progress.node for progress in find_behind(leases, Versions(5, 7), NOW)] == behind


def test_versions_compare_as_numbers():
    assert [version_number(text) for text in ("12", "", "x", "-1", "²")] == [12, 0, 0, 0, 0]
    objects = [Lease(metadata=ObjectMeta(resource_version=text)) for text in ("9", "10", "")]
    assert latest_version(objects) == 10
    assert latest_version([]) == 0
