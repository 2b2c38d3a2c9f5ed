"""An app's network test: a Deployment and its Service, as clients inside and outside of the cluster see them."""

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
"""


def test_the_service_answers(apply, wait_programmed, connect):
    apply(WEB)
    wait_programmed("web", ready=2)
    response = connect.http("http://web/")
    assert response.status == 200
    assert "nginx" in response.text


def test_the_name_leads_to_the_cluster_ip(apply, resolve):
    _, service = apply(WEB)
    assert resolve("web") == (service["spec"]["clusterIP"],)


def test_a_socket_reaches_the_service_from_a_node(apply, wait_programmed, connect):
    apply(WEB)
    wait_programmed("web")
    with connect("web:80", node="node1") as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert connection.recv(1024).startswith(b"HTTP/1.1 200")


def test_the_app_outlives_a_cut_node(apply, wait_programmed, connect, partition):
    _, service = apply(WEB)
    wait_programmed("web", ready=2)
    url = f"http://{service['spec']['clusterIP']}/"  # the DNS may be on the node that is cut
    with partition("node2"):
        assert any(answers(connect, url) for _ in range(20))
    assert answers(connect, url)


def answers(connect, url):
    try:
        return connect.http(url, seconds=1).status == 200
    except OSError:  # the pod on the other side
        return False
