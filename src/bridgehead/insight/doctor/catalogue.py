"""The catalogue of causes for which a Service does not work, in order of precedence.

A cause that stands earlier explains those after it: a selector without pods comes before a proxy that is behind.
docs/troubleshooting.md is `render_page()`.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Cause(NamedTuple):
    """A row. `family`: the module with its check. `example`: commands that show it, and the last one repairs it."""

    name: str
    family: str
    title: str
    explanation: str
    example: str


class Section(NamedTuple):
    """A chapter of the page."""

    title: str
    causes: tuple[Cause, ...]


SECTIONS: tuple[Section, ...] = (
    Section(
        "The name of the Service",
        (
            Cause(
                "NamespaceNotFound",
                "service_lookup",
                "The namespace does not exist",
                "kubectl and programs that use a full name look in a namespace that nobody has created, often because "
                "of a typing error.",
                'kubectl -n shpo get service web    # namespaces "shpo" not found\nkubectl -n shop get service web',
            ),
            Cause(
                "ServiceInOtherNamespace",
                "service_lookup",
                "The Service is in another namespace",
                "A short name is resolved in the namespace of the client's pod. From another namespace the name needs "
                "the namespace, too: web.shop.",
                "curl http://web         # from a pod in default: could not resolve host\ncurl http://web.shop",
            ),
            Cause(
                "ServiceNameMisspelled",
                "service_lookup",
                "The name differs by a letter or two",
                "There is no Service with this name in the namespace, but one whose name nearly is the same.",
                "kubectl get service wbe    # not found\nkubectl get service web",
            ),
            Cause(
                "ServiceNotFound",
                "service_lookup",
                "There is no such Service",
                "Nobody has created a Service with this name in any namespace. Pods alone have no name in the DNS.",
                "kubectl get service web    # not found\nkubectl expose deployment web --port=80",
            ),
            Cause(
                "PortNotInService",
                "service_lookup",
                "The client connects to a port that the Service does not have",
                "Clients use the Service's `port`. The `targetPort` is the pod's, and the `nodePort` is for the "
                "addresses of nodes only.",
                "curl http://web:8080    # 8080 is the targetPort\ncurl http://web:80",
            ),
            Cause(
                "ServiceTerminating",
                "service_lookup",
                "The Service is being deleted",
                "A finalizer keeps a deleted Service until its controller has cleaned up; without the controller it "
                "stays for ever.",
                "kubectl get service web -o jsonpath='{.metadata.finalizers}'\n"
                'kubectl patch service web --type merge -p \'{"metadata":{"finalizers":null}}\'',
            ),
        ),
    ),
    Section(
        "Names that lead elsewhere",
        (
            Cause(
                "ExternalNameIsAddress",
                "external_names",
                "An externalName is an address",
                "A Service of type ExternalName is an alias (CNAME) in the DNS. An alias of `10.0.0.7` is the name "
                "`10.0.0.7.`, which nobody resolves.",
                "kubectl create service externalname db --external-name 10.0.0.7\n"
                "kubectl delete service db    # then a Service without a selector, and an EndpointSlice with 10.0.0.7",
            ),
            Cause(
                "ExternalNameLoop",
                "external_names",
                "An externalName leads to itself",
                "The alias is its own target, and resolvers give up.",
                "kubectl create service externalname db --external-name db.default.svc.cluster.local\n"
                'kubectl patch service db --type merge -p \'{"spec":{"externalName":"db.example.com"}}\'',
            ),
            Cause(
                "ExternalNameToNothing",
                "external_names",
                "An externalName is the name of a Service that does not exist",
                "The alias leads into the cluster's own domain, where no Service has that name.",
                "kubectl create service externalname db --external-name mysql.data.svc.cluster.local\n"
                "kubectl -n data expose deployment mysql --port=3306",
            ),
        ),
    ),
    Section(
        "Selectors",
        (
            Cause(
                "ScaledToZero",
                "selectors",
                "The workload is scaled to 0",
                "The selector fits the pod template of a Deployment or StatefulSet that wants no pods.",
                "kubectl scale deployment web --replicas=0\nkubectl scale deployment web --replicas=1",
            ),
            Cause(
                "WorkloadWithoutPods",
                "selectors",
                "The workload cannot create its pods",
                "The selector fits a pod template, but there are no pods: a quota, an admission webhook or a missing "
                "service account refuses them, or the workload's controller does not run.",
                "kubectl describe replicaset -l app=web    # FailedCreate: exceeded quota\n"
                "kubectl edit resourcequota compute",
            ),
            Cause(
                "SelectorMisspelled",
                "selectors",
                "The selector matches nothing, but labels nearly do",
                "One label of the selector differs from those of the pods by a typing error, by case, by a hyphen, "
                "or in "
                "its value only.",
                "kubectl get pods --show-labels    # app=web\n"
                'kubectl patch service web --type merge -p \'{"spec":{"selector":{"app":"web"}}}\'    # was: wbe',
            ),
            Cause(
                "LabelsNotOnTemplate",
                "selectors",
                "The labels are on the Deployment, not on its pods",
                "A selector is compared with the labels of pods, which come from `spec.template.metadata.labels`. The "
                "Deployment's own labels have no influence.",
                "kubectl label deployment web tier=front    # its pods do not get the label\n"
                'kubectl patch deployment web -p \'{"spec":{"template":{"metadata":{"labels":{"tier":"front"}}}}}\'',
            ),
            Cause(
                "PodsInOtherNamespace",
                "selectors",
                "The pods are in another namespace",
                "A selector matches pods of the Service's own namespace only.",
                "kubectl get pods -A -l app=web    # all in shop\nkubectl -n shop expose deployment web --port=80",
            ),
            Cause(
                "SelectorMatchesNothing",
                "selectors",
                "The selector matches no pod",
                "No pod of the namespace has all labels of the selector, and none nearly has them.",
                "kubectl get pods -l app=web    # No resources found\nkubectl create deployment web --image=nginx",
            ),
            Cause(
                "NoSelectorNoEndpoints",
                "selectors",
                "Neither a selector nor Endpoints",
                "Without a selector, somebody has to write EndpointSlices (or Endpoints of the same name). Nobody has.",
                "kubectl get endpointslices -l kubernetes.io/service-name=web    # No resources found\n"
                'kubectl patch service web --type merge -p \'{"spec":{"selector":{"app":"web"}}}\'',
            ),
        ),
    ),
    Section(
        "Pods that are not ready",
        (
            Cause(
                "NodeGone",
                "pods",
                "The pods are on a node that does not exist any more",
                "A Node object was deleted, and its pods remain until the pod garbage collector removes them.",
                "kubectl get pods -o wide    # NODE node9\nkubectl delete pod web-1 --force",
            ),
            Cause(
                "NodeNotReady",
                "nodes",
                "A node is not ready",
                "The kubelet of the node has not reported for 40 s, or reports a problem. The node's pods are marked "
                "as "
                "not ready, and the Service has no other ones.",
                "kubectl describe node node2    # Kubelet stopped posting node status\n"
                "systemctl start kubelet    # on node2",
            ),
            Cause(
                "SchedulerNotRunning",
                "pods",
                "No scheduler takes the pods",
                "The pods are pending, and no scheduler reports why: kube-scheduler does not run, or "
                "`spec.schedulerName` names another one.",
                "kubectl get pods    # Pending, without Events\nkubectl patch deployment web -p "
                '\'{"spec":{"template":{"spec":{"schedulerName":"default-scheduler"}}}}\'',
            ),
            Cause(
                "PodSchedulingGated",
                "pods",
                "The pods wait for their scheduling gates",
                "A controller has to remove each entry of `spec.schedulingGates` before the scheduler looks at a pod.",
                "kubectl get pods    # SchedulingGated\nkubectl get pod web-1 -o jsonpath='{.spec.schedulingGates}'",
            ),
            Cause(
                "PodUnschedulable",
                "pods",
                "The pods fit on no node",
                "No node has the CPUs or the memory, the labels of `nodeSelector`, or the taints are not tolerated.",
                "kubectl describe pod web-1    # 0/2 nodes are available: 2 Insufficient cpu\n"
                "kubectl set resources deployment web --requests=cpu=100m",
            ),
            Cause(
                "ImagePullFailing",
                "pods",
                "An image cannot be pulled",
                "The image's name or tag does not exist, the registry does not answer, or it needs a password "
                "(`imagePullSecrets`).",
                "kubectl get pods    # ImagePullBackOff\nkubectl set image deployment/web web=nginx:1.27",
            ),
            Cause(
                "ContainerConfigInvalid",
                "pods",
                "A ConfigMap, Secret or key is missing",
                "The kubelet cannot build the container's environment (CreateContainerConfigError).",
                'kubectl describe pod web-1    # configmap "settings" not found\nkubectl create configmap settings',
            ),
            Cause(
                "ContainerNotStarting",
                "pods",
                "A container's program cannot be started",
                "The command does not exist in the image, or the container runtime refuses it.",
                'kubectl describe pod web-1    # exec: "serve": executable file not found in $PATH\n'
                "kubectl edit deployment web",
            ),
            Cause(
                "VolumeNotMounted",
                "pods",
                "A volume cannot be mounted",
                "The pod waits in ContainerCreating: the ConfigMap, Secret or claim of a volume is missing, or its "
                "storage does not answer.",
                'kubectl describe pod web-1    # FailedMount: configmap "site" not found\n'
                "kubectl create configmap site",
            ),
            Cause(
                "PodNetworkNotReady",
                "pods",
                "The pods get no network",
                "The network plugin of the node fails, or has no address left.",
                "kubectl describe pod web-1    # FailedCreatePodSandBox\n"
                "kubectl -n kube-system get pods -o wide    # the network plugin of the node",
            ),
            Cause(
                "InitContainerNotDone",
                "pods",
                "An init container does not end",
                "The program's container starts after all init containers have ended without an error.",
                "kubectl get pods    # Init:0/1\nkubectl logs web-1 -c wait-for-db",
            ),
            Cause(
                "ContainerOutOfMemory",
                "pods",
                "A container was killed for lack of memory",
                "The container used more memory than its limit (OOMKilled).",
                "kubectl describe pod web-1    # Last State: Terminated, OOMKilled\n"
                "kubectl set resources deployment web --limits=memory=512Mi",
            ),
            Cause(
                "LivenessProbeFailing",
                "pods",
                "The liveness probe kills a container",
                "The probe fails before the program is able to answer, or asks the wrong port or path.",
                "kubectl describe pod web-1    # Liveness probe failed\n"
                "kubectl edit deployment web    # initialDelaySeconds",
            ),
            Cause(
                "ContainerCrashing",
                "pods",
                "A container ends again and again",
                "The program exits, and the kubelet waits longer before each restart (CrashLoopBackOff).",
                "kubectl get pods    # CrashLoopBackOff\nkubectl logs web-1 --previous",
            ),
            Cause(
                "ProbePortWrong",
                "pods",
                "A probe asks the wrong port",
                "The port of a probe is a name that no container port has, or a number on which nothing listens.",
                "kubectl describe pod web-1    # Readiness probe failed: connection refused\n"
                "kubectl edit deployment web",
            ),
            Cause(
                "StartupProbeFailing",
                "pods",
                "The startup probe fails",
                "Until it succeeds, no other probe runs and the pod is not ready.",
                "kubectl describe pod web-1    # Startup probe failed\nkubectl logs web-1",
            ),
            Cause(
                "ReadinessProbeFailing",
                "pods",
                "The readiness probe fails",
                "The program runs, and reports that it is not able to serve: it waits for a database, for example, or "
                "the probe's path is wrong.",
                "kubectl describe pod web-1    # Readiness probe failed: HTTP probe failed with statuscode: 503\n"
                "kubectl logs web-1",
            ),
            Cause(
                "ReadinessGateUnmet",
                "pods",
                "A readiness gate is not met",
                "Another controller (of a load balancer, for example) has to set a condition of the pod, and has not.",
                "kubectl get pods -o wide    # READINESS GATES 0/1\n"
                "kubectl get pod web-1 -o jsonpath='{.status.conditions}'",
            ),
            Cause(
                "PodsNotStarted",
                "pods",
                "The kubelet does not start the pods",
                "The pods have a node, but for minutes nothing has happened there.",
                "kubectl get pods -o wide    # Pending\nkubectl describe node node1",
            ),
            Cause(
                "PodsStarting",
                "pods",
                "The pods are starting",
                "Wait a moment: the pods are new.",
                "kubectl get pods    # ContainerCreating\nkubectl rollout status deployment/web",
            ),
            Cause(
                "PodsNotReady",
                "pods",
                "The pods are not ready for another reason",
                "The condition Ready of the pods is not True.",
                "kubectl get pods    # 0/1 Running\nkubectl describe pod web-1",
            ),
            Cause(
                "PodsFinished",
                "pods",
                "All pods have ended",
                "A pod that has ended (of a Job, or evicted) is no endpoint.",
                "kubectl get pods    # Completed\nkubectl create deployment web --image=nginx",
            ),
            Cause(
                "PodsTerminating",
                "pods",
                "All pods are being deleted",
                "Endpoints that terminate get connections only while they still serve, and nothing replaces them.",
                "kubectl get pods    # Terminating\nkubectl create deployment web --image=nginx",
            ),
        ),
    ),
    Section(
        "Target ports",
        (
            Cause(
                "TargetPortWrongProtocol",
                "ports",
                "The protocol differs",
                "A Service port is TCP unless it has another protocol; a container port UDP/53 is another port than "
                "TCP/53.",
                "kubectl get service dns -o yaml    # protocol: TCP\n"
                'kubectl patch service dns --type json -p \'[{"op":"replace","path":"/spec/ports/0/protocol",'
                '"value":"UDP"}]\'',
            ),
            Cause(
                "TargetPortNameMissing",
                "ports",
                "A targetPort is a name that no container port has",
                "A named targetPort is looked up in each pod's container ports. A pod without the name gets no "
                "connection for this port.",
                "kubectl get service web -o yaml    # targetPort: htpp\n"
                'kubectl patch service web --type json -p \'[{"op":"add","path":"/spec/ports/0/targetPort",'
                '"value":"http"}]\'',
            ),
            Cause(
                "ListensOnOtherProtocol",
                "ports",
                "The program takes the other protocol",
                "Something listens on the port, but for UDP instead of TCP, or the other way round.",
                "kubectl exec web-1 -- ss -lntu\nkubectl edit service web    # protocol",
            ),
            Cause(
                "ListensOnLoopbackOnly",
                "ports",
                "The program listens on 127.0.0.1 only",
                "The program takes connections of its own pod, so that its probes by `exec` succeed, but of nobody "
                "else. "
                "It has to listen on 0.0.0.0 or ::.",
                "kubectl exec web-1 -- ss -lnt    # 127.0.0.1:8000\npython3 -m http.server 8000 --bind 0.0.0.0",
            ),
            Cause(
                "NothingListens",
                "ports",
                "Nothing listens on the targetPort",
                "Connections reach the pod and are refused there: the program listens on another port, or not yet.",
                "curl http://web    # connection refused\n"
                'kubectl patch service web --type json -p \'[{"op":"add","path":"/spec/ports/0/targetPort",'
                '"value":8080}]\'',
            ),
            Cause(
                "ListensOnOtherFamily",
                "ports",
                "The program listens in one address family only",
                "A dual-stack Service leads to both addresses of a pod; the program listens on 0.0.0.0, for example, "
                "and "
                "not on ::.",
                "curl -6 http://web    # connection refused\nnginx.conf: listen [::]:80;",
            ),
            Cause(
                "TargetPortsSwapped",
                "ports",
                "Two target ports are swapped",
                "The Service's port `http` leads to the container port `metrics`, and the other way round.",
                "curl http://web:80    # answers with metrics\nkubectl edit service web    # swap both targetPorts",
            ),
            Cause(
                "TargetPortOnSomePods",
                "ports",
                "Some pods lack the named targetPort",
                "Pods of two versions or workloads match the selector, and one kind has no container port of that "
                "name.",
                "kubectl get pods -l app=web    # web-old-1, web-new-1\n"
                "kubectl edit deployment web-old    # the port's name",
            ),
            Cause(
                "TargetPortNotDeclared",
                "ports",
                "No container declares the targetPort",
                "Container ports are for information only, but the pods declare others and not this one. Doctor "
                "suspects this only where it was not able to look at the programs in the pods.",
                "kubectl get service web -o yaml    # targetPort: 8080, and nginx has 80\n"
                'kubectl patch service web --type json -p \'[{"op":"add","path":"/spec/ports/0/targetPort",'
                '"value":80}]\'',
            ),
        ),
    ),
    Section(
        "Endpoints",
        (
            Cause(
                "FamilyWithoutPods",
                "slices",
                "No pod has an address of the Service's family",
                "A Service of IPv6 leads to the IPv6 addresses of pods; those of a cluster that is not dual-stack have "
                "none.",
                "kubectl get pods -o jsonpath='{.items[*].status.podIPs}'\n"
                "kubectl create service clusterip web --tcp=80    # anew, with ipFamilies: [IPv4]",
            ),
            Cause(
                "EndpointSlicesBehind",
                "slices",
                "The EndpointSlices do not match the pods",
                "The EndpointSlice controller does not run, is not able to write, or somebody changed a slice by hand. "
                "Connections go to pods that are gone, or do not reach new ones.",
                "kubectl get endpointslices -l kubernetes.io/service-name=web\n"
                "kubectl -n kube-system get pods -l component=kube-controller-manager",
            ),
            Cause(
                "EndpointsNotMirrored",
                "slices",
                "Endpoints are not mirrored to EndpointSlices",
                "Proxies read EndpointSlices. The mirroring controller copies Endpoints there, unless they have the "
                "label `endpointslice.kubernetes.io/skip-mirror`.",
                "kubectl get endpoints db --show-labels\n"
                "kubectl label endpoints db endpointslice.kubernetes.io/skip-mirror-",
            ),
            Cause(
                "EndpointPortMismatch",
                "slices",
                "The port of the endpoints has another name",
                "A port of a Service and one of its EndpointSlices belong together if name and protocol are equal. A "
                "Service with a named port needs the name there, too.",
                "kubectl get endpoints db -o yaml    # ports: - port: 3306, without a name\n"
                'kubectl patch endpoints db --type json -p \'[{"op":"add","path":"/subsets/0/ports/0/name",'
                '"value":"mysql"}]\'',
            ),
            Cause(
                "EndpointIsClusterIP",
                "slices",
                "An endpoint is the cluster IP of a Service",
                "The kernel translates the destination of a connection once. A cluster IP as its result leads nowhere.",
                "kubectl get endpoints alias -o yaml    # ip: 10.96.0.50\n"
                "kubectl create service externalname alias --external-name db.default.svc.cluster.local",
            ),
            Cause(
                "EndpointsNotReady",
                "slices",
                "No endpoint written by hand is ready",
                "The Endpoints have `notReadyAddresses` only, or the conditions of the EndpointSlice are `ready: "
                "false`.",
                "kubectl get endpointslices -l kubernetes.io/service-name=db -o yaml\nkubectl edit endpointslice db-1",
            ),
            Cause(
                "ForeignEndpointSlice",
                "slices",
                "A slice that no controller manages leads to nobody",
                "A Service with a selector has a further EndpointSlice, left over or written by hand, with an "
                "address of "
                "no pod. A part of the connections goes there.",
                "kubectl get endpointslices -l kubernetes.io/service-name=web\nkubectl delete endpointslice web-old",
            ),
            Cause(
                "PodAddressClash",
                "nodes",
                "Two pods have the same address",
                "The pod ranges of two nodes overlap, or a network plugin has lost its state.",
                "kubectl get pods -A -o wide | sort -k7\nkubectl delete pod web-1",
            ),
        ),
    ),
    Section(
        "Addresses",
        (
            Cause(
                "ClusterIPMissing",
                "addresses",
                "The Service has no cluster IP",
                "The API server was not able to allocate one: its Service CIDRs are full, or the object was restored "
                "without one.",
                "kubectl get servicecidrs\nkubectl apply -f more-addresses.yaml    # a second ServiceCIDR",
            ),
            Cause(
                "ClusterIPClash",
                "addresses",
                "Two Services have the same cluster IP",
                "This happens after a restore from a backup, or with two API servers of different ranges.",
                "kubectl get services -A | sort -k4\nkubectl replace --force -f web.yaml    # without clusterIP",
            ),
            Cause(
                "ExternalIPRefused",
                "addresses",
                "An external IP belongs to somebody else",
                "Proxies do not publish a Service at the cluster IP, load-balancer address or pod address of others, "
                "nor at loopback or link-local addresses (CVE-2020-8554).",
                "kubectl describe service web    # ReservedAddress\n"
                'kubectl patch service web -p \'{"spec":{"externalIPs":["10.0.0.201"]}}\'',
            ),
            Cause(
                "ExternalIPClash",
                "addresses",
                "Two Services have the same external IP and port",
                "A packet to the address and port has one destination: the Service that was there first.",
                "kubectl get services -A -o wide\n"
                'kubectl patch service web -p \'{"spec":{"externalIPs":["10.0.0.202"]}}\'',
            ),
            Cause(
                "ExternalIPHeldByNobody",
                "addresses",
                "No node has the external IP",
                "Kubernetes does not give an external IP to a node. Outside of the cluster, nobody answers for it, "
                "unless a router leads it to a node.",
                "curl http://10.0.0.99    # No route to host\n"
                'kubectl patch service web -p \'{"spec":{"externalIPs":["10.0.0.201"]}}\'    # a node\'s',
            ),
            Cause(
                "LoadBalancerWrongClass",
                "load_balancers",
                "The load balancer is of another class",
                "A load balancer serves the Services of its own `loadBalancerClass` only. The field cannot be changed.",
                "kubectl get service web -o jsonpath='{.spec.loadBalancerClass}'\n"
                "kubectl replace --force -f web.yaml    # without loadBalancerClass",
            ),
            Cause(
                "NoLoadBalancer",
                "load_balancers",
                "No load balancer runs",
                "Outside of a cloud, a Service of type LoadBalancer waits until somebody installs a load balancer.",
                "kubectl get service web    # EXTERNAL-IP <pending>\nbridgehead balancer --kubeconfig ~/.kube/config",
            ),
            Cause(
                "LoadBalancerConfigurationInvalid",
                "load_balancers",
                "The load balancer's configuration is invalid",
                "A pool or advertisement is malformed, or two pools overlap, and there was no valid configuration "
                "before.",
                "kubectl get events -A --field-selector type=Warning\n"
                "kubectl edit ipaddresspool first -n metallb-system",
            ),
            Cause(
                "LoadBalancerRequestInvalid",
                "load_balancers",
                "The Service asks for addresses in a contradictory way",
                "Its annotations and `spec.loadBalancerIP` name different addresses, or more families than it has.",
                "kubectl describe service web\nkubectl annotate service web metallb.io/loadBalancerIPs-",
            ),
            Cause(
                "LoadBalancerPoolUnknown",
                "load_balancers",
                "The Service names a pool that does not exist",
                "The annotation `metallb.io/address-pool` has a typing error, or the pool was deleted.",
                "kubectl get ipaddresspools -A\nkubectl annotate --overwrite service web metallb.io/address-pool=first",
            ),
            Cause(
                "LoadBalancerPoolNotAllowed",
                "load_balancers",
                "The pool is for other Services",
                "The pool's `serviceAllocation` names other namespaces or labels, or the pool has `autoAssign: false`.",
                "kubectl get ipaddresspools -A -o yaml    # serviceAllocation\nkubectl label service web public=true",
            ),
            Cause(
                "LoadBalancerAddressOutsidePools",
                "load_balancers",
                "The Service asks for an address that no pool contains",
                "`spec.loadBalancerIP` or its annotation names an address outside of all pools.",
                "kubectl get ipaddresspools -A -o yaml    # 10.0.0.240-10.0.0.250\n"
                'kubectl patch service web -p \'{"spec":{"loadBalancerIP":"10.0.0.241"}}\'',
            ),
            Cause(
                "LoadBalancerAddressInUse",
                "load_balancers",
                "Another Service has the address",
                "Two Services share an address only with the same `metallb.io/allow-shared-ip`, different ports, and "
                "the same pods if their policy is Local.",
                "kubectl get services -A -o wide | grep 10.0.0.240\n"
                "kubectl annotate service web api metallb.io/allow-shared-ip=edge",
            ),
            Cause(
                "LoadBalancerPoolFull",
                "load_balancers",
                "No address is free",
                "All addresses of the pools that may be used have been given to other Services.",
                "kubectl get services -A | grep -c LoadBalancer\nkubectl edit ipaddresspool first -n metallb-system",
            ),
            Cause(
                "LoadBalancerNoPool",
                "load_balancers",
                "There is no pool",
                "A load balancer runs, but nobody has given it addresses.",
                "kubectl get ipaddresspools -A    # No resources found\nkubectl apply -f pool.yaml",
            ),
            Cause(
                "LoadBalancerPending",
                "load_balancers",
                "The load balancer gives no address and no reason",
                "Its log has the reason.",
                "kubectl describe service web\nkubectl -n metallb-system logs deployment/controller",
            ),
            Cause(
                "LoadBalancerNotAnnounced",
                "load_balancers",
                "No node announces the address",
                "The Service has an address, but no advertisement is for it, no BGP peer is configured, or no node "
                "with an endpoint may announce it.",
                "kubectl get l2advertisements,bgpadvertisements -A    # No resources found\nkubectl apply -f l2.yaml",
            ),
            Cause(
                "LoadBalancerOtherAddress",
                "load_balancers",
                "The Service has another address than it asks for",
                "`spec.loadBalancerIP` is ignored by many load balancers, and Kubernetes deprecates it.",
                "kubectl get service web\nkubectl annotate service web metallb.io/loadBalancerIPs=10.0.0.241",
            ),
        ),
    ),
    Section(
        "Policies of Services",
        (
            Cause(
                "SourceRangesAllowNobody",
                "policies",
                "The source ranges allow no client",
                "`loadBalancerSourceRanges` has ranges of the other address family only.",
                "kubectl get service web -o jsonpath='{.spec.loadBalancerSourceRanges}'    # [\"fd00::/8\"]\n"
                'kubectl patch service web -p \'{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8"]}}\'',
            ),
            Cause(
                "InternalLocalWithoutEndpoints",
                "policies",
                "internalTrafficPolicy Local, and a node without an endpoint",
                "Connections of pods stay on their node. Without an endpoint there they are dropped.",
                "kubectl get pods -o wide -l app=cache    # none on node2\n"
                'kubectl patch service cache -p \'{"spec":{"internalTrafficPolicy":"Cluster"}}\'',
            ),
            Cause(
                "ExternalLocalWithoutEndpoints",
                "policies",
                "externalTrafficPolicy Local, and a node without an endpoint",
                "The node port of a node without an endpoint drops connections. Load balancers leave out such nodes by "
                "the healthCheckNodePort; clients that use a node's address do not.",
                "curl http://10.0.0.202:30080    # no answer\n"
                'kubectl patch service web -p \'{"spec":{"externalTrafficPolicy":"Cluster"}}\'',
            ),
            Cause(
                "HintsLeaveZoneEmpty",
                "policies",
                "No endpoint is hinted for a zone",
                "With `trafficDistribution` or topology-aware hints, connections from a zone without a hinted endpoint "
                "go to other zones.",
                "kubectl get nodes -L topology.kubernetes.io/zone\nkubectl scale deployment web --replicas=4",
            ),
            Cause(
                "HintsIncomplete",
                "policies",
                "Some endpoints have hints and others none",
                "Proxies ignore hints unless every ready endpoint has them.",
                "kubectl get endpointslices -l kubernetes.io/service-name=web -o yaml\n"
                "kubectl label node node3 topology.kubernetes.io/zone=c",
            ),
            Cause(
                "NodesWithoutZone",
                "policies",
                "The Service prefers a zone, and nodes have none",
                "Proxies on nodes without the label `topology.kubernetes.io/zone` ignore hints.",
                "kubectl get nodes -L topology.kubernetes.io/zone\n"
                "kubectl label node node1 topology.kubernetes.io/zone=a",
            ),
        ),
    ),
    Section(
        "NetworkPolicies",
        (
            Cause(
                "NetworkPolicyForbidsIngress",
                "networkpolicies",
                "A NetworkPolicy forbids every connection",
                "A pod that a policy selects takes only what some policy allows. Whether policies have an effect "
                "depends "
                "on the network plugin.",
                "kubectl describe networkpolicy default-deny\nkubectl apply -f allow-web.yaml",
            ),
            Cause(
                "NetworkPolicyForbidsPort",
                "networkpolicies",
                "A NetworkPolicy allows another port",
                "Policies see the pod's port: that is the targetPort, not the port of the Service.",
                "kubectl get networkpolicy web -o yaml    # ports: - port: 80, and targetPort is 8080\n"
                "kubectl edit networkpolicy web",
            ),
            Cause(
                "NetworkPolicyAllowsNobody",
                "networkpolicies",
                "A NetworkPolicy allows clients that do not exist",
                "No pod has the labels of the peers in `from`: a typing error, or the clients are in a namespace "
                "without the label.",
                "kubectl get pods -A --show-labels\nkubectl label namespace shop team=front",
            ),
            Cause(
                "NetworkPolicyForbidsDns",
                "networkpolicies",
                "A NetworkPolicy keeps pods from the DNS",
                "A policy with the type Egress forbids everything else, also questions to the cluster's DNS.",
                "kubectl exec web-1 -- nslookup api    # timed out\nkubectl apply -f allow-dns.yaml",
            ),
        ),
    ),
    Section(
        "Proxies",
        (
            Cause(
                "LeftToOtherProxy",
                "addresses",
                "The Service is left to another proxy",
                "kube-proxy leaves out Services with the label `service.kubernetes.io/service-proxy-name`.",
                "kubectl get service web --show-labels\n"
                "kubectl label service web service.kubernetes.io/service-proxy-name-",
            ),
            Cause(
                "ProxyRefusesService",
                "proxies",
                "A node's kernel refuses the Service's rules",
                "The proxy retries it; until then an earlier version of the Service is in force there, or none.",
                "kubectl describe service web    # RefusedByKernel\nkubectl -n kube-system logs daemonset/kube-proxy",
            ),
            Cause(
                "ProxyWithoutProgram",
                "proxies",
                "A proxy lacks a program on its node",
                "The mode needs iptables, ipset or nft, which the node or the image does not have.",
                "kubectl -n kube-system logs daemonset/kube-proxy\n"
                "apt-get install nftables iptables ipset    # on the node",
            ),
            Cause(
                "ProxyNotRunning",
                "proxies",
                "A node has no running proxy",
                "The kernel keeps the rules that it has, but gets no changes: new Services do not work on that node.",
                "kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide\n"
                "kubectl -n kube-system rollout restart daemonset/kube-proxy",
            ),
            Cause(
                "ProxySilent",
                "proxies",
                "A proxy publishes nothing any more",
                "It runs, but hangs, or does not reach the API server.",
                "kubectl -n kube-system get leases -l bridgehead/progress=service-proxy\n"
                "kubectl -n kube-system delete pod kube-proxy-x7k2p",
            ),
            Cause(
                "ProxyBehind",
                "proxies",
                "A proxy has not programmed the present state",
                "The node's kernel has an earlier version of the Service or of its endpoints.",
                "bridgehead wait service/web\nkubectl -n kube-system logs daemonset/kube-proxy",
            ),
            Cause(
                "ProxyInOtherMode",
                "proxies",
                "A proxy is in another mode than wanted",
                "The node is not able to use the configured mode. Its Services work in another one meanwhile.",
                "bridgehead status\nkubectl -n kube-system edit configmap kube-proxy",
            ),
            Cause(
                "ProxyWarns",
                "proxies",
                "A proxy warns of something that its node lacks",
                "Services work, perhaps without IPv6 or without a feature.",
                "bridgehead status\nkubectl -n kube-system logs daemonset/kube-proxy",
            ),
        ),
    ),
    Section(
        "Rules in the kernel",
        (
            Cause(
                "KernelLacksMode",
                "node_rules",
                "The kernel does not have the proxy's mode",
                "Mode ipvs needs the module ip_vs, which the node's kernel does not have or has not loaded.",
                "ls /proc/net/ip_vs    # No such file\nmodprobe ip_vs",
            ),
            Cause(
                "IptablesVariantsMixed",
                "node_rules",
                "iptables-legacy and nf_tables have KUBE-* chains",
                "The proxy's image uses another variant of iptables than a program before it. Packets pass the "
                "rules of both.",
                "iptables-legacy-save | grep KUBE-\niptables-legacy -t nat -F",
            ),
            Cause(
                "NodeWithoutRules",
                "node_rules",
                "A node has no rules at all",
                "Somebody flushed the node's ruleset, or the proxy has never programmed it.",
                "nft list tables    # no table bridgehead\n"
                "kubectl -n kube-system delete pod kube-proxy-x7k2p    # it writes all rules when it starts",
            ),
            Cause(
                "RulesMissing",
                "node_rules",
                "The kernel lacks rules of the Service",
                "The rules on a node differ from those that follow from the Service and its EndpointSlices. "
                "Another program has deleted some, and the proxy does not run or has not yet repaired them.",
                "bridgehead rules service/web --node node2\nkubectl -n kube-system delete pod kube-proxy-x7k2p",
            ),
            Cause(
                "RulesForeign",
                "node_rules",
                "The kernel has rules for the Service that nobody should have written",
                "Connections also go to an address that is no endpoint of the Service.",
                "bridgehead rules service/web --node node2\nkubectl -n kube-system delete pod kube-proxy-x7k2p",
            ),
            Cause(
                "RulesAltered",
                "node_rules",
                "Rules of all Services are altered",
                "A chain that all Services share lacks a rule, or has one that the proxy does not write.",
                "nft list table ip bridgehead\nkubectl -n kube-system delete pod kube-proxy-x7k2p",
            ),
            Cause(
                "TwoProxies",
                "node_rules",
                "Two proxies are on a node",
                "Both program the same Services. Whichever rule comes first takes a connection, and changes that "
                "only one of them knows have no effect.",
                "nft list tables    # ip bridgehead, ip kube-proxy\n"
                "kubectl -n kube-system delete daemonset kube-proxy    # one of the two",
            ),
            Cause(
                "RulesOfOtherMode",
                "node_rules",
                "Rules of another mode are left over",
                "The proxy's mode was changed without a clean-up. Rules that nobody keeps up to date lead to "
                "pods that are gone.",
                "iptables-save | grep KUBE-\nkube-proxy --cleanup",
            ),
            Cause(
                "ProxyListenerMissing",
                "node_rules",
                "The proxy does not listen where its rules lead",
                "In mode userspace, connections end at the proxy. Its process has ended, or runs out of descriptors.",
                "ss -lntp\nkubectl -n kube-system delete pod kube-proxy-x7k2p",
            ),
            Cause(
                "IpvsAddressMissing",
                "node_rules",
                "A cluster IP is not on kube-ipvs0",
                "IPVS sees packets only to addresses of the node itself; so the proxy adds each cluster IP to "
                "the interface kube-ipvs0.",
                "ip address show kube-ipvs0\nkubectl -n kube-system delete pod kube-proxy-x7k2p",
            ),
            Cause(
                "IpvsUntracked",
                "node_rules",
                "Connections of IPVS are not tracked",
                "Without connection tracking the kernel does not masquerade connections that IPVS translates. The "
                "proxy sets this sysctl when it starts; another program has set it back.",
                "sysctl net.ipv4.vs.conntrack    # 0\nsysctl -w net.ipv4.vs.conntrack=1",
            ),
            Cause(
                "PacketsDropped",
                "packet_filters",
                "A packet filter drops the Service's packets",
                "A firewall on the node has a rule for the Service's port. After the translation packets have "
                "the pod's address and port.",
                "nft list ruleset    # tcp dport 30080 drop\nnft delete rule inet firewall input handle 7",
            ),
            Cause(
                "ForwardDropped",
                "packet_filters",
                "A node forwards no packets of pods",
                "The policy of the chain FORWARD is DROP, as Docker sets it, or a firewall rejects what it does "
                "not know.",
                "iptables -S FORWARD    # -P FORWARD DROP\niptables -P FORWARD ACCEPT",
            ),
            Cause(
                "ConnectionsStale",
                "connections",
                "UDP flows lead to an endpoint that is gone",
                "Connection tracking keeps the endpoint of a flow for as long as the client sends. The proxy "
                "removes such flows when an endpoint goes, unless it does not run.",
                "conntrack -L -p udp --reply-src 10.244.2.7\nconntrack -D -p udp --reply-src 10.244.2.7",
            ),
            Cause(
                "AffinityToGonePod",
                "node_rules",
                "Clients stick to a pod that is gone",
                "With session affinity, IPVS keeps a client at its server, also when the server's weight is 0.",
                "ipvsadm -Ln --persistent-conn\nsysctl -w net.ipv4.vs.expire_quiescent_template=1",
            ),
            Cause(
                "ConnectionsToGonePods",
                "connections",
                "TCP connections to pods that are gone",
                "The pod went without closing them, for example with its node. Clients with keepalive or a "
                "timeout notice it.",
                "bridgehead flows service/web\nconntrack -D -p tcp --reply-src 10.244.2.7",
            ),
        ),
    ),
    Section(
        "The network of a node",
        (
            Cause(
                "ForwardingOff",
                "node_networks",
                "A node does not forward packets",
                "The sysctl net.ipv4.ip_forward (or that of IPv6, or of an interface) is 0.",
                "sysctl net.ipv4.ip_forward    # 0\nsysctl -w net.ipv4.ip_forward=1",
            ),
            Cause(
                "ConnectionTableFull",
                "node_networks",
                "The connection table is full",
                'The kernel drops the first packet of every new connection: "nf_conntrack: table full, dropping '
                'packet".',
                "sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max\n"
                "sysctl -w net.netfilter.nf_conntrack_max=1048576",
            ),
            Cause(
                "PodRouteMissing",
                "node_networks",
                "A node has no route to pods",
                "The network plugin has not written the route to another node's pods, or somebody deleted it.",
                "ip route get 10.244.2.7\nip route add 10.244.2.0/24 via 10.0.0.202",
            ),
            Cause(
                "PodRouteWrong",
                "node_networks",
                "A route to pods leads to another node",
                "The packets arrive where the pod is not.",
                "ip route get 10.244.2.7    # via the address of node3\nip route replace 10.244.2.0/24 via 10.0.0.202",
            ),
            Cause(
                "ClusterIPOnInterface",
                "node_networks",
                "A node has a cluster IP on an interface",
                "The Service CIDR overlaps with the network of the machines, or somebody added the address by hand.",
                "ip address    # 10.96.0.50/32\nip address delete 10.96.0.50/32 dev eth0",
            ),
            Cause(
                "NoRouteToServices",
                "node_networks",
                "A node has no route to cluster IPs",
                "Connections of the node's own programs look up a route before the rules translate the address. "
                "Without a default route there is none.",
                "curl http://10.96.0.50    # on the node: Network is unreachable\nip route add default via 10.0.0.1",
            ),
            Cause(
                "ServiceCidrRouted",
                "node_networks",
                "A route overlaps with the Service CIDR",
                "A VPN, for example, has a route for 10.0.0.0/8. Connections of the node's own programs to "
                "cluster IPs then have the VPN's address as their source, or fail.",
                "ip route    # 10.96.0.0/16 dev tun0\nip route delete 10.96.0.0/16 dev tun0",
            ),
            Cause(
                "BridgeBypassesRules",
                "node_networks",
                "A bridge passes frames without the rules",
                "With br_netfilter off, replies between pods of one node do not pass the translation back.",
                "sysctl net.bridge.bridge-nf-call-iptables    # 0\nsysctl -w net.bridge.bridge-nf-call-iptables=1",
            ),
            Cause(
                "HairpinOff",
                "node_networks",
                "A pod does not reach itself through its Service",
                "The bridge does not send a frame back to the port from which it came, unless the port is in "
                "hairpin mode.",
                "cat /sys/class/net/veth1/brport/hairpin_mode    # 0\nbridge link set dev veth1 hairpin on",
            ),
            Cause(
                "ReversePathFiltered",
                "node_networks",
                "rp_filter drops packets of pods",
                "Packets of another node's pods arrive on another interface than the one to which the route back "
                "leads.",
                "sysctl net.ipv4.conf.all.rp_filter    # 1\nsysctl -w net.ipv4.conf.eth1.rp_filter=2",
            ),
            Cause(
                "MtuDiffers",
                "node_networks",
                "The MTU of nodes differs",
                "Packets that one node sends are too large for another one.",
                "ip link show eth0\nip link set eth0 mtu 1500",
            ),
            Cause(
                "PodMtuTooLarge",
                "node_networks",
                "The MTU of pods is too large",
                "Small requests get through and large answers do not: the tunnel between nodes adds a header.",
                "ip link    # veth 1500, vxlan 1450\nkubectl -n kube-system edit configmap flannel    # MTU",
            ),
            Cause(
                "LocalhostNodePortsOff",
                "node_networks",
                "Node ports do not answer on 127.0.0.1",
                "Mode iptables needs the sysctl route_localnet for this. Other modes never answer there.",
                "curl http://127.0.0.1:30080    # on the node\nsysctl -w net.ipv4.conf.all.route_localnet=1",
            ),
            Cause(
                "NodePortInUse",
                "node_networks",
                "A program of a node listens on a node port",
                "The rules come before the program: clients get the Service.",
                "ss -lntp    # 0.0.0.0:30080\n"
                'kubectl patch service web --type json -p \'[{"op":"remove","path":"/spec/ports/0/nodePort"}]\'',
            ),
            Cause(
                "ConnectionTableNearlyFull",
                "node_networks",
                "The connection table is nearly full",
                "More than four fifths of the entries are in use.",
                "sysctl net.netfilter.nf_conntrack_count\nsysctl -w net.netfilter.nf_conntrack_max=1048576",
            ),
        ),
    ),
    Section(
        "The DNS",
        (
            Cause(
                "DnsForwardingLoop",
                "names",
                "The DNS forwards queries to itself",
                "The `resolv.conf` of the node names 127.0.0.53 (systemd-resolved), or the Corefile the Service "
                "kube-dns. CoreDNS ends when it detects the loop.",
                "kubectl -n kube-system logs -l k8s-app=kube-dns    # plugin/loop: Loop detected\n"
                "kubectl -n kube-system edit configmap coredns    # forward . 192.0.2.53",
            ),
            Cause(
                "DnsZoneMissing",
                "names",
                "The Corefile lacks the plugin kubernetes",
                "Without it the DNS does not know any name of the cluster.",
                "kubectl -n kube-system get configmap coredns -o yaml\n"
                "kubectl -n kube-system edit configmap coredns    # kubernetes cluster.local in-addr.arpa ip6.arpa",
            ),
            Cause(
                "DnsServiceMissing",
                "names",
                "The Service kube-dns is missing",
                "Pods ask the cluster IP of this Service for every name.",
                "kubectl -n kube-system get service kube-dns    # not found\nkubectl apply -f kube-dns.yaml",
            ),
            Cause(
                "DnsWithoutEndpoints",
                "names",
                "No DNS pod is ready",
                "Every name fails, also those of outside. The text has the reason, which is one of the causes above.",
                "kubectl -n kube-system get pods -l k8s-app=kube-dns\n"
                "kubectl -n kube-system rollout restart deployment/coredns",
            ),
            Cause(
                "DnsNoAnswer",
                "dns_answers",
                "The cluster's DNS does not answer",
                "Doctor sends one query for the Service kubernetes to the cluster IP of the DNS, from each node "
                "and from a pod.",
                "nslookup kubernetes.default.svc.cluster.local 10.96.0.10\n"
                "kubectl -n kube-system rollout restart deployment coredns",
            ),
            Cause(
                "DnsAnswersError",
                "dns_answers",
                "The cluster's DNS answers with an error",
                "SERVFAIL: the DNS does not reach the API server, or has not finished reading Services.",
                "nslookup kubernetes.default.svc.cluster.local 10.96.0.10    # SERVFAIL\n"
                "kubectl -n kube-system logs -l k8s-app=kube-dns",
            ),
            Cause(
                "PodAsksOtherDns",
                "dns_answers",
                "The resolv.conf of a pod names another DNS",
                "The kubelet's clusterDNS is not the cluster IP of the Service kube-dns, or somebody has changed "
                "the file.",
                "kubectl exec web-1 -- cat /etc/resolv.conf\nkubectl -n kube-system get service kube-dns",
            ),
            Cause(
                "SearchListCut",
                "names",
                "A pod has too many search domains or name servers",
                "The kubelet takes 32 domains, 2048 characters and 3 name servers, and leaves out the rest. Older C "
                "libraries take 6 domains and 256 characters.",
                "kubectl describe pod web-1    # DNSConfigForming\nkubectl edit deployment web    # dnsConfig.searches",
            ),
            Cause(
                "PodSkipsClusterDns",
                "names",
                "A pod does not ask the cluster's DNS",
                "Pods on the host network use the node's resolv.conf unless their dnsPolicy is "
                "ClusterFirstWithHostNet.",
                "kubectl exec agent-1 -- cat /etc/resolv.conf\n"
                "kubectl patch deployment agent -p "
                '\'{"spec":{"template":{"spec":{"dnsPolicy":"ClusterFirstWithHostNet"}}}}\'',
            ),
            Cause(
                "NdotsHigh",
                "names",
                "ndots multiplies the queries of a pod",
                "A name with fewer dots than ndots is first asked with each search domain: one lookup becomes ten "
                "queries.",
                "kubectl exec web-1 -- cat /etc/resolv.conf    # options ndots:15\n"
                "kubectl edit deployment web    # dnsConfig.options",
            ),
        ),
    ),
    Section(
        "Headless Services and StatefulSets",
        (
            Cause(
                "StatefulSetServiceMissing",
                "headless",
                "The Service of a StatefulSet does not exist",
                "The names of its pods (web-0.web) need the headless Service in `spec.serviceName`.",
                "kubectl exec web-0 -- nslookup web-1.web    # not found\n"
                "kubectl create service clusterip web --clusterip=None",
            ),
            Cause(
                "StatefulSetServiceNotHeadless",
                "headless",
                "The Service of a StatefulSet is not headless",
                "Its name leads to the cluster IP and not to the pods.",
                "kubectl get service web    # CLUSTER-IP 10.96.0.7\n"
                "kubectl replace --force -f web.yaml    # clusterIP: None",
            ),
            Cause(
                "HeadlessPortIgnored",
                "headless",
                "A headless Service does not translate ports",
                "Clients get the addresses of pods from the DNS and connect to them: `port` has no effect but in SRV "
                "records.",
                "curl http://web:80      # refused; the pods listen on 8080\ncurl http://web:8080",
            ),
        ),
    ),
    Section(
        "Ingresses",
        (
            Cause(
                "IngressToMissingService",
                "ingresses",
                "An Ingress leads to no Service",
                "The Service does not exist in the Ingress' own namespace.",
                'kubectl describe ingress shop    # services "wbe" not found\nkubectl edit ingress shop',
            ),
            Cause(
                "IngressToMissingPort",
                "ingresses",
                "An Ingress leads to a port that its Service lacks",
                "An Ingress names the Service's port, not the targetPort.",
                "kubectl describe ingress shop\nkubectl edit ingress shop    # number: 80",
            ),
            Cause(
                "IngressClassMissing",
                "ingresses",
                "The class of an Ingress does not exist",
                "No controller serves the class in `spec.ingressClassName`.",
                'kubectl get ingressclasses\nkubectl patch ingress shop -p \'{"spec":{"ingressClassName":"nginx"}}\'',
            ),
            Cause(
                "IngressWithoutClass",
                "ingresses",
                "An Ingress has no class, and none is the default",
                "Most controllers leave out such an Ingress.",
                "kubectl get ingress    # CLASS <none>\n"
                "kubectl annotate ingressclass nginx ingressclass.kubernetes.io/is-default-class=true",
            ),
        ),
    ),
    Section(
        "Nodes and ranges",
        (
            Cause(
                "NodeAddressClash",
                "nodes",
                "Two nodes have the same address",
                "Packets to the nodes and to their pods reach one of them.",
                "kubectl get nodes -o wide\nkubeadm reset    # on one of them, then join with its own address",
            ),
            Cause(
                "PodCidrClash",
                "nodes",
                "The pod ranges of two nodes overlap",
                "The route to a pod leads to one of the nodes.",
                "kubectl get nodes -o custom-columns=NAME:.metadata.name,CIDR:.spec.podCIDR\nkubectl delete node node2",
            ),
            Cause(
                "ServiceCidrClash",
                "nodes",
                "A Service CIDR overlaps with nodes or pods",
                "A cluster IP is then the address of a machine or pod, too.",
                "kubectl get servicecidrs\nkubectl delete servicecidr other",
            ),
            Cause(
                "NodeNetworkUnavailable",
                "nodes",
                "A node's network is not set up",
                "The network plugin or the cloud's route controller has not reported the node's network yet.",
                "kubectl describe node node2    # NetworkUnavailable True\nkubectl -n kube-system get pods -o wide",
            ),
            Cause(
                "NodeUnderPressure",
                "nodes",
                "A node lacks memory, disk or process numbers",
                "The kubelet evicts pods, and the Service loses endpoints.",
                "kubectl describe node node2    # DiskPressure True\ncrictl rmi --prune    # on node2",
            ),
            Cause(
                "CertificateExpired",
                "certificates",
                "A certificate has ended",
                "Clients refuse the API server, or it refuses them: controllers and proxies stop following changes.",
                "openssl s_client -connect 10.0.0.201:6443 | openssl x509 -noout -enddate\nkubeadm certs renew all",
            ),
            Cause(
                "CertificateExpiresSoon",
                "certificates",
                "A certificate ends within two weeks",
                "Everything works until then.",
                "kubeadm certs check-expiration\nkubeadm certs renew all",
            ),
        ),
    ),
    Section(
        "Fields without an effect",
        (
            Cause(
                "ClusterIPOutsideRange",
                "addresses",
                "A cluster IP is outside of the Service CIDRs",
                "The ranges were changed after the Service was created.",
                "kubectl get servicecidrs\nkubectl replace --force -f web.yaml    # without clusterIP",
            ),
            Cause(
                "SourceRangesIgnored",
                "policies",
                "Source ranges of a Service that is no load balancer",
                "`loadBalancerSourceRanges` is for load-balancer addresses only.",
                "kubectl get service web -o yaml\n"
                'kubectl patch service web --type merge -p \'{"spec":{"loadBalancerSourceRanges":null}}\'',
            ),
            Cause(
                "AffinityWithoutProxy",
                "policies",
                "Session affinity of a headless Service",
                "No proxy is between client and pod.",
                'kubectl get service web -o yaml\nkubectl patch service web -p \'{"spec":{"sessionAffinity":"None"}}\'',
            ),
            Cause(
                "ExternalNamePortsIgnored",
                "external_names",
                "Ports of a Service of type ExternalName",
                "An alias in the DNS translates no port.",
                "curl http://db:80    # connects to port 80 of the other name\n"
                'kubectl patch service db --type merge -p \'{"spec":{"ports":null}}\'',
            ),
        ),
    ),
)

CAUSES: Mapping[str, Cause] = {cause.name: cause for section in SECTIONS for cause in section.causes}
_POSITIONS: Mapping[str, int] = {name: position for position, name in enumerate(CAUSES)}


def position_of(name: str) -> int:
    """Return the precedence of a cause; unknown ones come last."""
    return _POSITIONS.get(name, len(_POSITIONS))


def family_of(name: str) -> str:
    """Return the family of a cause; "" for an unknown one."""
    cause = CAUSES.get(name)
    return cause.family if cause is not None else ""


def explain(cause: Cause) -> str:
    """Return the row as text for a terminal."""
    example = "\n".join(f"    {line}" for line in cause.example.splitlines())
    return f"{cause.name}: {cause.title}\n\n{cause.explanation}\n\n{example}\n"


_INTRODUCTION = """# Why does it not work?

`bridgehead doctor` looks for the first cause for which a Service does not work, in the order of this page, and
prints one verdict and one fix. It reads and changes nothing. `bridgehead doctor --explain CAUSE` prints a section of
this page.

    bridgehead doctor                  # the whole cluster
    bridgehead doctor service/web      # one Service; service/web:80 one port of it
    bridgehead doctor -o json          # findings, verdicts of all Services, and what could not be looked at
    bridgehead doctor --machine        # this machine, before there is a lab

The exit code is 0 when nothing is broken, 1 when something is or when a named Service cannot be read, and 2 for a
wrong command line. In each example the first line shows the cause and the last one is the remedy.
"""


def render_page() -> str:
    """Return docs/troubleshooting.md."""
    parts = [_INTRODUCTION]
    for section in SECTIONS:
        parts.append(f"## {section.title}\n")
        for cause in section.causes:
            example = "\n".join(f"    {line}" for line in cause.example.splitlines())
            parts.append(f"### {cause.name}: {cause.title}\n\n{cause.explanation}\n\n{example}\n")
    return "\n".join(parts)
