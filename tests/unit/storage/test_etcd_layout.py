"""Keys of objects in etcd, compared with the paths of Kubernetes 1.36 (test/integration/etcd/data.go)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.storedobjects import layout_of
from bridgehead.storage import Key
from bridgehead.storage.etcd import Layout

TABLE = build_table(service_cidrs=("10.96.0.0/16",), node_port_range=(30000, 32767))
LAYOUT = layout_of(TABLE)

# ExpectedEtcdPath of every resource that this server has too; namespaced ones are in `ns`.
PATHS = {
    "configmaps": "/registry/configmaps/ns/cm1",
    "services": "/registry/services/specs/ns/service1",
    "podtemplates": "/registry/podtemplates/ns/pt1name",
    "pods": "/registry/pods/ns/pod1",
    "endpoints": "/registry/services/endpoints/ns/ep1name",
    "resourcequotas": "/registry/resourcequotas/ns/rq1name",
    "limitranges": "/registry/limitranges/ns/lr1name",
    "namespaces": "/registry/namespaces/namespace1",
    "nodes": "/registry/minions/node1",
    "persistentvolumes": "/registry/persistentvolumes/pv1name",
    "events": "/registry/events/ns/event1",
    "persistentvolumeclaims": "/registry/persistentvolumeclaims/ns/pvc1",
    "serviceaccounts": "/registry/serviceaccounts/ns/sa1name",
    "secrets": "/registry/secrets/ns/secret1",
    "replicationcontrollers": "/registry/controllers/ns/rc1",
    "daemonsets.apps": "/registry/daemonsets/ns/ds6",
    "deployments.apps": "/registry/deployments/ns/deployment4",
    "statefulsets.apps": "/registry/statefulsets/ns/ss3",
    "replicasets.apps": "/registry/replicasets/ns/rs3",
    "controllerrevisions.apps": "/registry/controllerrevisions/ns/crs3",
    "horizontalpodautoscalers.autoscaling": "/registry/horizontalpodautoscalers/ns/hpa4",
    "jobs.batch": "/registry/jobs/ns/job1",
    "cronjobs.batch": "/registry/cronjobs/ns/cjv1",
    "certificatesigningrequests.certificates.k8s.io": "/registry/certificatesigningrequests/csr2",
    "leases.coordination.k8s.io": "/registry/leases/ns/leasev1",
    "endpointslices.discovery.k8s.io": "/registry/endpointslices/ns/slicev1",
    "ingresses.networking.k8s.io": "/registry/ingress/ns/ingress3",
    "ingressclasses.networking.k8s.io": "/registry/ingressclasses/ingressclass3",
    "networkpolicies.networking.k8s.io": "/registry/networkpolicies/ns/np2",
    "ipaddresses.networking.k8s.io": "/registry/ipaddresses/192.168.2.3",
    "servicecidrs.networking.k8s.io": "/registry/servicecidrs/range-b2",
    "poddisruptionbudgets.policy": "/registry/poddisruptionbudgets/ns/pdbv1",
    "flowschemas.flowcontrol.apiserver.k8s.io": "/registry/flowschemas/fs-3",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": "/registry/prioritylevelconfigurations/conf5",
    "volumeattachments.storage.k8s.io": "/registry/volumeattachments/va3",
    "volumeattributesclasses.storage.k8s.io": "/registry/volumeattributesclasses/vac3",
    "storageclasses.storage.k8s.io": "/registry/storageclasses/sc2",
    "csistoragecapacities.storage.k8s.io": "/registry/csistoragecapacities/ns/csc-12345-3",
    "csinodes.storage.k8s.io": "/registry/csinodes/csini2",
    "csidrivers.storage.k8s.io": "/registry/csidrivers/csid2",
    "roles.rbac.authorization.k8s.io": "/registry/roles/ns/role3",
    "clusterroles.rbac.authorization.k8s.io": "/registry/clusterroles/crole3",
    "rolebindings.rbac.authorization.k8s.io": "/registry/rolebindings/ns/roleb3",
    "clusterrolebindings.rbac.authorization.k8s.io": "/registry/clusterrolebindings/croleb3",
    "validatingwebhookconfigurations.admissionregistration.k8s.io": "/registry/validatingwebhookconfigurations/hook2",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": "/registry/mutatingwebhookconfigurations/hook2",
    "validatingadmissionpolicies.admissionregistration.k8s.io": "/registry/validatingadmissionpolicies/vap1",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": "/registry/validatingadmissionpolicybindings/pb1",
    "mutatingadmissionpolicies.admissionregistration.k8s.io": "/registry/mutatingadmissionpolicies/map1v1",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": "/registry/mutatingadmissionpolicybindings/mpb1v1",
    "priorityclasses.scheduling.k8s.io": "/registry/priorityclasses/pc3",
    "apiservices.apiregistration.k8s.io": "/registry/apiregistration.k8s.io/apiservices/as2.foo.com",
    "customresourcedefinitions.apiextensions.k8s.io": (
        "/registry/apiextensions.k8s.io/customresourcedefinitions/openshiftwebconsoleconfigs.webconsole2.operator.openshift.io"
    ),
    "runtimeclasses.node.k8s.io": "/registry/runtimeclasses/rc3",
    "deviceclasses.resource.k8s.io": "/registry/deviceclasses/class4name",
    "resourceclaims.resource.k8s.io": "/registry/resourceclaims/ns/claim4name",
    "resourceclaimtemplates.resource.k8s.io": "/registry/resourceclaimtemplates/ns/claimtemplate4name",
    "resourceslices.resource.k8s.io": "/registry/resourceslices/node4slice",
    "foos.cr.bar.com": "/registry/cr.bar.com/foos/ns/cr1foo",
    "pants.custom.fancy.com": "/registry/custom.fancy.com/pants/cr2pant",
}


@pytest.mark.parametrize(("resource", "path"), PATHS.items())
def test_objects_are_where_kubernetes_has_them(resource: str, path: str) -> None:
    *_, namespace, name = path.split("/")
    key = Key(resource, "ns" if namespace == "ns" else "", name)
    assert LAYOUT.etcd_key(key) == path.encode()
    assert LAYOUT.object_key(path.encode()) == key


def test_all_resources_are_compared_but_one_that_kubernetes_does_not_store() -> None:
    assert {one.stored.id for one in TABLE} - PATHS.keys() == {"componentstatuses"}
    assert LAYOUT.etcd_key(Key("componentstatuses", "", "etcd-0")).startswith(LAYOUT.own_prefix())


@pytest.mark.parametrize(
    "key",
    [
        "/registry/ranges/servicenodeports",
        "/registry/masterleases/10.0.0.1",
        "/registry/bridgehead/claims/clusterip/10.96.0.9",
        "/registry/storageversions/sv1.test",
        "/registry/leasecandidates/ns/one",
        "/registry/podsecuritypolicy/psp2",
        "/registry/pods/only-a-namespace",
        "/registry/pods/ns/name/more",
        "/registry/minions/ns/name",
        "/registry/services/web",
        "/registry/services/others/ns/web",
        "/registry/pods/ns/",
        "/registry/pods//name",
        "/registry/example.com/widgets",
        "/registry/example.com/widgets/ns/name/more",
        "/registry",
        "/registry/",
        "/registrypods/ns/name",
        "/other/pods/ns/name",
        "hello",
        "",
    ],
)
def test_other_keys_are_no_objects(key: str) -> None:
    assert LAYOUT.object_key(key.encode()) is None


@given(st.binary())
def test_keys_by_hand_are_objects_or_not(tail: bytes) -> None:
    key = b"/registry/" + tail
    found = LAYOUT.object_key(key)
    assert found is None or LAYOUT.etcd_key(found) == key


@pytest.mark.parametrize("prefix", ["/lab", "lab", "lab/", "/lab/"])
def test_a_prefix_may_have_slashes_at_its_ends(prefix: str) -> None:
    layout = Layout({"pods": True}, prefix)
    assert layout.etcd_key(Key("pods", "ns", "p")) == b"/lab/pods/ns/p"
    assert layout.own_prefix() == b"/lab/bridgehead/"


def test_ranges_of_a_resource_and_of_a_namespace() -> None:
    assert LAYOUT.resource_prefix("services") == b"/registry/services/specs/"
    assert LAYOUT.resource_prefix("services", "ns") == b"/registry/services/specs/ns/"
    assert LAYOUT.resource_prefix("widgets.example.com") == b"/registry/example.com/widgets/"
