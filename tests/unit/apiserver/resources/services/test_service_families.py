"""IP families of Services: every policy, request and kind of Service, in clusters of one and two families.

Source of the rules: Kubernetes "IPv4/IPv6 dual-stack", KEP-563.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from itertools import product
from typing import Any

import pytest

from tests.unit.apiserver.resources.steps import Steps, table

RANGES = {"IPv4": "10.96.0.0/12", "IPv6": "fd00:10:96::/112"}
CLUSTERS = (("IPv4",), ("IPv6",), ("IPv4", "IPv6"), ("IPv6", "IPv4"))
WISHES = (None, ("IPv4",), ("IPv6",), ("IPv4", "IPv6"), ("IPv6", "IPv4"))
SINGLE, PREFER, REQUIRE = "SingleStack", "PreferDualStack", "RequireDualStack"
POLICIES = (None, SINGLE, PREFER, REQUIRE)
KINDS: dict[str, dict[str, Any]] = {
    "addressed": {"selector": {"app": "web"}},
    "headless": {"selector": {"app": "web"}, "clusterIP": "None"},
    "headless without selector": {"clusterIP": "None"},
}


def steps(*families: str) -> Steps:
    return Steps(table(*(RANGES[family] for family in families))["services"])


def service(kind="addressed", wish=None, policy=None, **spec):
    spec = {"ports": [{"port": 80}], **KINDS[kind], **spec}
    if wish:
        spec["ipFamilies"] = list(wish)
    if policy:
        spec["ipFamilyPolicy"] = policy
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}


def families_of(addresses) -> list[str]:
    return [f"IPv{ip_address(address).version}" for address in addresses]


def change(old, **spec):
    """Return `old` with other fields; None removes a field."""
    merged = {**old["spec"], **spec}
    return {**old, "spec": {name: value for name, value in merged.items() if value is not None}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cluster", CLUSTERS, ids="-".join)
def test_families_follow_request_and_policy_in_every_cluster(cluster, kind):
    """Chosen families begin with the requested ones; SingleStack has one, RequireDualStack two."""
    is_open = kind == "headless without selector"  # nobody but the client knows its endpoints
    for wish, policy in product(WISHES, POLICIES):
        # Two families without a word about the policy are a contradiction, too: that of the default.
        effective = policy or (REQUIRE if is_open else SINGLE)
        is_sound = effective != SINGLE or len(wish or ()) < 2
        if not is_open:
            is_sound = is_sound and set(wish or ()) <= set(cluster) and (effective != REQUIRE or len(cluster) == 2)
        refused = steps(*cluster).refusal(service(kind, wish, policy))
        assert bool(refused) != is_sound, (wish, policy, refused)
        if refused:
            continue
        made = steps(*cluster).create(service(kind, wish, policy))["spec"]
        has_two = effective != SINGLE and (is_open or len(cluster) == 2)
        first = wish[0] if wish else cluster[0]
        second = "IPv6" if first == "IPv4" else "IPv4"
        assert made["ipFamilies"] == ([first, second] if has_two else [first]), (wish, policy)
        assert made["ipFamilyPolicy"] == effective
        assert made["clusterIP"] == made["clusterIPs"][0]
        if kind == "addressed":
            assert families_of(made["clusterIPs"]) == made["ipFamilies"]
            for address, family in zip(made["clusterIPs"], made["ipFamilies"], strict=True):
                assert ip_address(address) in ip_network(RANGES[family])
        else:
            assert made["clusterIPs"] == ["None"]


@pytest.mark.parametrize(
    ("spec", "families"),
    [
        ({"clusterIP": "fd00:10:96::5"}, ["IPv6"]),
        ({"clusterIP": "fd00:10:96::5", "ipFamilyPolicy": PREFER}, ["IPv6", "IPv4"]),
        ({"clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5", "fd00:10:96::5"], "ipFamilyPolicy": PREFER},
         ["IPv4", "IPv6"]),
        ({"clusterIP": "fd00:10:96::5", "ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": REQUIRE}, ["IPv6", "IPv4"]),
    ],
)  # fmt: skip
def test_families_follow_requested_addresses(spec, families):
    made = steps("IPv4", "IPv6").create(service(**spec))["spec"]
    assert made["ipFamilies"] == families_of(made["clusterIPs"]) == families
    assert made["clusterIPs"][0] == spec["clusterIP"]


REFUSALS = [
    (("IPv4",), {"ipFamilies": ["IPv6"]}, 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'),
    (("IPv4",), {"ipFamilyPolicy": PREFER, "ipFamilies": ["IPv4", "IPv6"]},
     'spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster'),
    (("IPv4",), {"clusterIP": "fd00:10:96::5"},
     'spec.clusterIPs[0]: Invalid value: ["fd00:10:96::5"]: IPv6 is not configured on this cluster'),
    (("IPv6",), {"ipFamilyPolicy": REQUIRE},
     'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services'),
    (("IPv4", "IPv6"), {"ipFamilies": ["IPv4", "IPv6"]},
     "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when "
     "multiple IP families are specified"),
    (("IPv4", "IPv6"), {"clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5", "fd00:10:96::5"]},
     "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when "
     "multiple cluster IPs are specified"),
    (("IPv4", "IPv6"), {"clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5", "10.96.0.6"], "ipFamilyPolicy": REQUIRE},
     'spec.clusterIPs: Invalid value: ["10.96.0.5","10.96.0.6"]: may specify no more than one IP for each IP family'),
    (("IPv4", "IPv6"), {"clusterIP": "fd00:99::5"},
     'spec.clusterIPs: Invalid value: ["fd00:99::5"]: failed to allocate IP fd00:99::5: the provided network does '
     "not match the current range; choose an address in fd00:10:96::/112"),
    (("IPv4", "IPv6"), {"clusterIP": "10.96.0.5", "ipFamilies": ["IPv6"]},
     'spec.clusterIPs[0]: Invalid value: "10.96.0.5": expected an IPv6 value as indicated by `ipFamilies[0]`'),
]  # fmt: skip


@pytest.mark.parametrize(("cluster", "spec", "text"), REFUSALS)
def test_invalid_families_are_refused_with_kubernetes_messages(cluster, spec, text):
    assert text in steps(*cluster).refusal(service(**spec))


# --- Changes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wish", [("IPv4",), ("IPv6",)], ids="-".join)
@pytest.mark.parametrize(("before", "after"), list(product(POLICIES[1:], POLICIES[1:])))
def test_a_change_of_policy_adds_and_releases_the_second_address(before, after, wish):
    """The second address depends on the policy, the first never changes; claims match the stored Service."""
    services = steps("IPv4", "IPv6")
    old = services.create(service(wish=wish, policy=before))
    new = services.update(old, change(old, ipFamilyPolicy=after))
    kept = 2 if before != SINGLE and after != SINGLE else 1
    assert new["spec"]["clusterIPs"][:kept] == old["spec"]["clusterIPs"][:kept]
    assert len(new["spec"]["clusterIPs"]) == len(new["spec"]["ipFamilies"]) == (1 if after == SINGLE else 2)
    assert families_of(new["spec"]["clusterIPs"]) == new["spec"]["ipFamilies"]
    assert new["spec"]["ipFamilies"][0] == wish[0]
    assert len(services.claimed) == len(new["spec"]["clusterIPs"])
    back = services.update(new, change(new, ipFamilyPolicy=before))
    assert back["spec"]["ipFamilies"] == old["spec"]["ipFamilies"]


def test_a_replace_by_a_manifest_without_families_keeps_both():
    """A manifest for `kubectl replace` does not have the values that the server chose."""
    services = steps("IPv4", "IPv6")
    old = services.create(service(wish=("IPv6",), policy=REQUIRE))
    for manifest in (service(), service(policy=REQUIRE), service(policy=PREFER)):
        new = services.update(old, manifest)["spec"]
        assert (new["clusterIPs"], new["ipFamilies"]) == (old["spec"]["clusterIPs"], old["spec"]["ipFamilies"])


def test_a_requested_second_address_is_allocated():
    services = steps("IPv4", "IPv6")
    old = services.create(service())
    both = [old["spec"]["clusterIP"], "fd00:10:96::7"]
    new = services.update(old, change(old, ipFamilyPolicy=PREFER, clusterIPs=both))
    assert (new["spec"]["clusterIPs"], new["spec"]["ipFamilies"]) == (both, ["IPv4", "IPv6"])
    taken = services.refusal(service(clusterIP="fd00:10:96::7"))
    assert "provided IP is already allocated" in taken[0]
    # Given back, it is free again.
    services.update(new, change(new, ipFamilyPolicy=SINGLE))
    assert services.refusal(service(clusterIP="fd00:10:96::7")) == []


UPDATE_REFUSALS = [
    (REQUIRE, {"ipFamilies": ["IPv6", "IPv4"], "clusterIPs": None, "clusterIP": None},
     'spec.clusterIPs[0]: Invalid value: "A": expected an IPv6 value as indicated by `ipFamilies[0]`'),
    (REQUIRE, {"ipFamilies": ["IPv4"]},
     "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary "
     "IP family"),
    (REQUIRE, {"clusterIPs": "first"},
     "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary "
     "cluster IP"),
    (SINGLE, {"ipFamilies": ["IPv4", "IPv6"]},
     "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when "
     "multiple IP families are specified"),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "changes", "text"), UPDATE_REFUSALS)
def test_invalid_changes_of_families_are_refused(policy, changes, text):
    services = steps("IPv4", "IPv6")
    old = services.create(service(policy=policy))
    first = old["spec"]["clusterIP"]
    if changes.get("clusterIPs") == "first":
        changes = {**changes, "clusterIPs": [first]}
    assert text.replace('"A"', f'"{first}"') in services.update_refusal(old, change(old, **changes))


@pytest.mark.parametrize("policy", [PREFER, SINGLE])
def test_a_change_of_the_clusters_families_changes_no_service(policy):
    """Services change only when a client asks for it."""
    before = steps("IPv4").create(service(policy=policy))
    assert steps("IPv4", "IPv6").update(before, change(before, selector={"app": "other"}))["spec"]["ipFamilies"] == [
        "IPv4"
    ]
    both = steps("IPv4", "IPv6").create(service(policy=PREFER))
    after = steps("IPv4").update(both, change(both, selector={"app": "other"}))["spec"]
    assert (after["clusterIPs"], after["ipFamilies"]) == (both["spec"]["clusterIPs"], ["IPv4", "IPv6"])


@pytest.mark.parametrize(("before", "after"), [(SINGLE, PREFER), (PREFER, SINGLE)])
def test_headless_services_change_their_family_policy(before, after):
    services = steps("IPv4", "IPv6")
    old = services.create(service("headless", policy=before))
    new = services.update(old, change(old, ipFamilyPolicy=after))["spec"]
    assert new["ipFamilies"] == (["IPv4"] if after == SINGLE else ["IPv4", "IPv6"])
    assert new["clusterIPs"] == ["None"]


def test_an_external_name_service_has_no_families():
    services = steps("IPv4", "IPv6")
    old = services.create(service(policy=REQUIRE))
    name = services.update(old, {**service(), "spec": {"type": "ExternalName", "externalName": "a.example"}})
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & name["spec"].keys()
    assert services.claimed == set()
    again = services.update(name, service(policy=REQUIRE))["spec"]
    assert families_of(again["clusterIPs"]) == again["ipFamilies"] == ["IPv4", "IPv6"]
