"""Pages with commands (tests/e2e/pages.py): their form, and which outputs are the same; the pages that there are."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.e2e.pages import Command, File, parse, shape_of
from tests.e2e.transcripts import Call

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TUTORIALS = DOCS / "tutorials"
# Only the pages in English run; those in Chinese are equal to them.
TRANSLATIONS = [
    (ROOT / "README.md", ROOT / "README.zh-CN.md"),
    (DOCS / "start.md", DOCS / "start.zh.md"),
    *((page, TUTORIALS / "zh" / page.name) for page in sorted((TUTORIALS / "en").glob("*.md"))),
]

PAGE = """# A page

```yaml
# web.yaml
kind: Service
```

```yaml
kind: Pod
```

    $ kubectl version

```console
$ kubectl apply -f web.yaml
service/web created
$ kubectl get service web
NAME   AGE
web    3s
```

<!-- fails -->
```console
$ kubectl create -f - <<'EOF'
> {}
> EOF
error: no kind
```
"""


def test_a_page_has_files_and_commands() -> None:
    assert parse(PAGE) == [
        File("web.yaml", "# web.yaml\nkind: Service\n"),
        Command(Call(15, "kubectl apply -f web.yaml", ("service/web created",), 0, until=False), fails=False),
        Command(Call(17, "kubectl get service web", ("NAME AGE", "web 3s"), 0, until=False), fails=False),
        Command(
            Call(24, "kubectl create -f - <<'EOF'\n{}\nEOF", ("error: no kind",), 0, until=False),
            fails=True,
        ),
    ]


@pytest.mark.parametrize(
    ("command", "is_repeatable"),
    [
        ("kubectl get pods", True),
        ("kubectl -n kube-system rollout status daemonset kube-proxy", True),
        ("bridgehead exec -- curl -s 10.0.0.10", True),
        ("bridgehead exec --node node1 -- ip -4 address show eth0", True),
        ("bridgehead exec --node node1 -- ip address add 10.0.0.88/32 dev eth0", False),
        ("kubectl -n kube-system rollout restart daemonset kube-proxy", False),
        ("sed s/a/b/ file | kubectl apply -f -", False),
        ("KUBE_EDITOR='sed -i s/a/b/' kubectl -n kube-system edit configmap kube-proxy", False),
        ("PORT=$(kubectl get service web -o jsonpath='{.spec.ports[0].nodePort}')", False),
        ("bridgehead up --detach", False),
    ],
)
def test_only_commands_that_read_are_repeated(command: str, is_repeatable: bool) -> None:
    assert Command(Call(1, command, (), 0, until=False), fails=False).is_repeatable is is_repeatable


@pytest.mark.parametrize(
    ("shown", "printed", "is_same"),
    [
        ("web-6d977598b7-4dv5q   1/1   3s", "web-7cbd745748-sd7hv 1/1 1m20s", True),
        ("web-6d977598b7-4dv5q   1/1   3s", "web-7cbd745748-sd7hv 0/1 3s", False),
        ("web-6d977598b7-4dv5q", "db-7cbd745748-sd7hv", False),
        ("web-xnhm5   IPv4   80   10.244.1.3,10.244.2.3", "web-2krdn IPv4 80 10.244.3.17,10.244.1.20", True),
        ("web-xnhm5   IPv4   80   10.244.1.3,10.244.2.3", "web-2krdn IPv4 80 10.244.3.17", False),
        ("web   NodePort   10.97.186.121   80:31549/TCP", "web NodePort 10.107.0.7 80:30001/TCP", True),
        ("web   NodePort   10.97.186.121   80:31549/TCP", "web NodePort 10.107.0.7 81:30001/TCP", False),
        ("10.96.0.1", "10.96.0.10", False),
        ("10.96.0.10", "10.96.0.11", False),
        ("10.96.0.12", "10.96.0.7", True),
        ("10.0.0.10", "10.0.0.11", False),
        ("10.0.0.201 node1", "10.0.0.203 node3", True),
        ("10-244-1-24.httpd", "10-244-3-2.httpd", True),
        ("-j KUBE-SEP-FICXGEAB66IRGZS7", "-j KUBE-SEP-AT6JCQRIPMWNQENW", True),
        ("-j KUBE-SVC-4N57TFCL4MD7ZTDA", "-j KUBE-SVC-YG65S75AKNCDZRSF", False),
        ("ready after 5.3 s, at https://127.0.0.1:6443.", "ready after 12.0 s, at https://127.0.0.1:40001.", True),
        ("2026-11-30T11:13:14.006Z mode iptables", "2027-01-01T00:00:00Z mode iptables", True),
        ("2026-11-30T11:13:14.006Z mode iptables", "2027-01-01T00:00:00Z mode nftables", False),
        ("kube-proxy", "kube-dns", False),
    ],
)
def test_what_differs_between_runs_is_compared_by_its_shape(shown: str, printed: str, is_same: bool) -> None:
    command = Command(Call(1, "kubectl get all", (" ".join(shown.split()),), 0, until=False), fails=False)
    assert command.accepts(f"{printed}\n", 0) is is_same
    assert not command.accepts(f"{printed}\n", 1)


def test_fixed_names_have_no_shape() -> None:
    line = "kube-system service-clusterip-multi-port example-service redis-master 10.0.0.10 10.96.0.0/12 v1.36.0 443"
    assert shape_of(line) == line


@pytest.mark.parametrize(("english", "chinese"), TRANSLATIONS, ids=lambda page: page.stem)
def test_pages_of_both_languages_have_the_same_commands(english: Path, chinese: Path) -> None:
    steps = [blocks(page) for page in (english, chinese)]
    assert steps[0]
    assert steps[0] == steps[1]
    assert f"]({relative(chinese, english)})" in english.read_text("utf-8")
    assert f"]({relative(english, chinese)})" in chinese.read_text("utf-8")


def blocks(page: Path) -> list[str]:
    return re.findall(r"^(?:<!-- fails -->\n)?```(?:console|yaml)\n.*?^```$", page.read_text("utf-8"), re.DOTALL | re.M)


def relative(page: Path, start: Path) -> str:
    return page.name if page.parent == start.parent else f"../{page.parent.name}/{page.name}"


def test_the_index_has_every_tutorial() -> None:
    linked = re.findall(r"\]\(((?:en|zh)/.*?\.md)\)", (TUTORIALS / "index.md").read_text("utf-8"))
    there = [str(page.relative_to(TUTORIALS)) for page in TUTORIALS.glob("*/*.md")]
    assert sorted(linked) == sorted(there)
    assert len(there) == 10


def test_every_command_of_a_tutorial_is_in_a_block_that_runs() -> None:
    for page in (TUTORIALS / "en").glob("*.md"):
        text = page.read_text("utf-8")
        assert set(re.findall(r"^```(\w*)$", text, re.MULTILINE)) <= {"console", "yaml", ""}, page
        assert len(parse(text)) >= 15, page


def test_the_picture_shows_the_first_look() -> None:
    """`scripts/record-first-look` draws it."""
    picture = html.unescape((DOCS / "images" / "first-look.svg").read_text("utf-8"))
    commands = re.findall(r'<text class="command [^>]*>\$ (.*)</text>', picture)
    first_look = (ROOT / "README.md").read_text("utf-8").partition("## A first look")[2].partition("\n## ")[0]
    assert commands == [step.call.command for step in parse(first_look) if isinstance(step, Command)]
    assert "http" not in re.sub(r">[^<]*<", "><", picture).replace('xmlns="http://www.w3.org/2000/svg"', "")
