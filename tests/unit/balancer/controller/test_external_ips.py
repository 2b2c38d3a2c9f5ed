"""Events about externalIPs that pools contain."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.balancer.compiled_configuration import Configuration, Pool
from bridgehead.balancer.controller.external_ips import note_clash, note_unannounced
from bridgehead.balancer.ranges import parse_range
from bridgehead.objects.core import Service

LAB = Pool("lab", "metallb", (parse_range("10.0.0.10-10.0.0.50"),))
NAMED = Pool("named", "metallb", (parse_range("10.0.1.0/24"),), auto_assign=False)
CONFIGURATION = Configuration((LAB, NAMED))
OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def service(
    name: str = "web",
    *external_ips: str,
    given: str = "",
    created: str = NEW,
    ports: tuple[int, ...] = (80,),
    protocol: str = "TCP",
    **more: Any,
) -> Service:
    spec: dict[str, Any] = {
        "externalIPs": external_ips,
        "type": "LoadBalancer" if given else "ClusterIP",
        "ports": [{"port": port, "protocol": protocol} for port in ports],
    }
    return msgspec.convert(
        {
            "metadata": {"namespace": "default", "name": name, "creationTimestamp": created},
            "spec": spec | more,
            "status": {"loadBalancer": {"ingress": [{"ip": given}]}} if given else {},
        },
        Service,
    )


ADVICE = (
    "use type LoadBalancer (metallb.io/loadBalancerIPs names an address), addresses that no pool contains, or those "
    "of a pool with autoAssign: false or an Eip that is not the default"
)
OF_LAB = 'of pool "lab", which gives them to Services of type LoadBalancer'


@pytest.mark.parametrize(
    ("found", "parts"),
    [
        (service("web", "10.0.0.20", "192.0.2.1"), f"10.0.0.20 {OF_LAB}"),
        (
            service("web", *(f"10.0.0.{n}" for n in range(10, 51))),
            f"10.0.0.10, 10.0.0.11, 10.0.0.12 and 38 more {OF_LAB}",
        ),
        (
            service("web", "10.0.1.7", "10.0.0.20"),
            f'10.0.1.7 of pool "named", which gave them to Service default/owner; 10.0.0.20 {OF_LAB}',
        ),
    ],
)
def test_an_event_names_addresses_that_pools_give_to_others(found: Service, parts: str) -> None:
    note = note_unannounced(found, CONFIGURATION, [service("owner", given="10.0.1.7")])

    assert note is not None
    assert (note.type, note.reason) == ("Warning", "ExternalIPNotAnnounced")
    assert note.message == f"no node announces these externalIPs: {parts}; {ADVICE}"


@pytest.mark.parametrize(
    "found",
    [
        service("web", "10.0.1.8", "192.0.2.1", "odd"),
        service("web", "10.0.0.20", given="10.0.0.20"),  # its own
        service("web", "10.0.0.20", type="ExternalName"),
        service("web"),
    ],
)
def test_other_external_ips_are_no_event(found: Service) -> None:
    assert note_unannounced(found, CONFIGURATION, [service("owner", given="10.0.1.7")]) is None


def test_an_external_ip_that_is_shared_with_its_holder_is_no_event() -> None:
    def sharing(name: str, *external_ips: str, given: str = "") -> Service:
        found = service(name, *external_ips, given=given)
        annotations = {"metallb.io/allow-shared-ip": "key"}
        return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=annotations))

    owner = sharing("owner", given="10.0.0.20")
    assert note_unannounced(sharing("web", "10.0.0.20"), CONFIGURATION, [owner]) is None
    assert note_unannounced(service("web", "10.0.0.20"), CONFIGURATION, [owner]) is not None
    assert note_unannounced(sharing("web", "10.0.0.20"), CONFIGURATION, []) is not None


def test_the_younger_service_has_an_event_of_a_clash_and_keeps_its_address() -> None:
    owner = service("owner", given="10.0.0.10", ports=(80, 443))
    older = [service(f"s{n}", "10.0.0.10", "10.0.0.11", created=OLD, ports=(80, 443)) for n in range(2)]

    note = note_clash(owner, [*older, owner])

    assert note is not None
    assert (note.type, note.reason) == ("Warning", "ExternalIPClash")
    assert note.message == (
        "the address stays with this Service, though an older one has it in externalIPs: port TCP/80 of 10.0.0.10 is "
        "listed by Service default/s0; port TCP/443 of 10.0.0.10 is listed by Service default/s0; port TCP/80 of "
        "10.0.0.10 is listed by Service default/s1 and 1 more; remove it there"
    )


@pytest.mark.parametrize(
    "other",
    [
        service("s", "10.0.0.10", created=OLD, ports=(81,)),
        service("s", "10.0.0.10", created=OLD, protocol="UDP"),
        service("s", "10.0.0.11", created=OLD),
        service("s", "10.0.0.10", created="2026-01-03T00:00:00Z"),  # has an event itself
    ],
)
def test_what_does_not_clash_is_no_event(other: Service) -> None:
    assert note_clash(service("owner", given="10.0.0.10"), [other]) is None
