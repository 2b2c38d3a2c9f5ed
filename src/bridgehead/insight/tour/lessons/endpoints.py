"""Lesson: endpoints connect a Service with its pods, by labels or by hand.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Choice, Lesson, Question, Step, Text

_SLICES = "kubectl -n tour get endpointslices -l kubernetes.io/service-name="

LESSON = Lesson(
    name="endpoints",
    title=Text(en="Endpoints: the far end of the bridge", zh="端点：桥的另一头"),
    steps=(
        Step(
            text=Text(
                en="The Service's IP is one end of a bridge, the endpoint's IP is the other, the pod is the place"
                " behind it, and kube-proxy builds the bridge. EndpointSlices have the endpoints of a Service.",
                zh="服务的 IP 是桥头，端点的 IP 是桥尾，Pod 是过桥以后的地点，kube-proxy 是造桥的。服务的端点记录在"
                " EndpointSlice 里。",
            ),
            command=f"{_SLICES}web",
            after=Text(
                en="Older tutorials look at `kubectl get endpoints web`, which has the same addresses.",
                zh="较早的教程使用 `kubectl get endpoints web`，其中的地址是一样的。",
            ),
            expected=r"web-\w+\s+IPv4\s+\d+",
        ),
        Step(
            text=Text(
                en="One more replica: when its pod is ready, the controller adds its address, and every proxy gets the"
                " change.",
                zh="增加一个副本：Pod 就绪后，控制器会加入它的地址，所有节点上的 kube-proxy 都会收到这个变化。",
            ),
            command=f"kubectl -n tour scale deployment web --replicas=3 && {_SLICES}web",
            expected=r"(\d+\.\d+\.\d+\.\d+,){2}\d+",
            waits=True,
        ),
        Step(
            text=Text(
                en="Only labels decide. A pod that loses the label app=web runs on, but the Service does not send it"
                " new connections any more.",
                zh="起决定作用的只有标签。去掉标签 app=web 的 Pod 仍在运行，但服务不再把新连接转发给它。",
            ),
            command="kubectl -n tour label pod @pod@ app=debug --overwrite && kubectl -n tour get pods --show-labels",
            after=Text(
                en="The Deployment has started another pod in its place. To take a pod out of service and look into it"
                " at leisure, change its label.",
                zh="Deployment 已经启动了另一个 Pod 来代替它。想把某个 Pod 移出服务、慢慢排查，改它的标签就行。",
            ),
            expected=r"app=debug",
        ),
        Step(
            text=Text(
                en="A Service without a selector has the endpoints that you write. So it can stand for a server"
                " outside of the cluster; here it is the address of a pod.",
                zh="没有 selector 的服务使用手动创建的端点，因此可以代表集群外部的服务器；这里用的是一个 Pod 的地址。",
            ),
            command="""kubectl -n tour apply -f - <<'EOF'
apiVersion: v1
kind: Service
metadata: {name: outside}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: outside-1, labels: {kubernetes.io/service-name: outside}}
addressType: IPv4
endpoints: [{addresses: [@pod_ip@]}]
ports: [{port: 80}]
EOF""",
            expected=r"endpointslice.discovery.k8s.io/outside-1",
        ),
        Step(
            text=Text(en="It works like any other.", zh="它和其他服务一样可以访问。"),
            command="kubectl -n tour exec client -- wget -T 2 -qO- http://outside",
            expected=r"ServerName",
            waits=True,
        ),
        Step(
            text=Text(en="Back to two replicas.", zh="恢复为两个副本。"),
            command="kubectl -n tour scale deployment web --replicas=2"
            " && kubectl -n tour delete pods -l app=debug --grace-period=1",
            expected=r"scaled",
        ),
    ),
    question=Question(
        text=Text(
            en="Who writes the address of a new pod into the EndpointSlice?",
            zh="新 Pod 的地址是由谁写入 EndpointSlice 的？",
        ),
        choices=(
            Choice(
                Text(en="The pod itself, when it starts", zh="Pod 自己，在启动时"),
                Text(
                    en="No: a pod knows nothing of the Services that select it.",
                    zh="不对：Pod 并不知道哪些服务选中了它。",
                ),
            ),
            Choice(
                Text(en="kube-proxy on the pod's node", zh="Pod 所在节点上的 kube-proxy"),
                Text(
                    en="No: kube-proxy only reads Services and EndpointSlices, and makes rules of them.",
                    zh="不对：kube-proxy 只读取 Service 和 EndpointSlice，再把它们变成规则。",
                ),
            ),
            Choice(
                Text(en="A controller that watches Services and pods", zh="监视 Service 和 Pod 的控制器"),
                Text(
                    en="Right: the EndpointSlice controller, as soon as the pod has the labels of the selector. The"
                    " pod gets connections when it is ready.",
                    zh="正确：是 EndpointSlice 控制器，只要 Pod 的标签与标签选择器一致就会写入。Pod"
                    " 就绪后才会收到连接。",
                ),
            ),
        ),
        right=2,
    ),
)
