"""A test of a chart: shop.yaml has the form of what `helm template release ./shop` prints."""


def test_the_release_serves_its_page(apply, wait_programmed, connect):
    applied = {each["kind"]: each for each in apply("shop.yaml")}
    wait_programmed("release-shop")
    assert "<h1>Shop</h1>" in connect.http("http://release-shop/").text
    node_port = applied["Service"]["spec"]["ports"][0]["nodePort"]
    assert connect.http(f"http://node2:{node_port}/").status == 200
