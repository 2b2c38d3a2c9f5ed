"""All stand-ins, and the one of an image. A new one is an entry here, and for a new program a module in `programs`."""

from __future__ import annotations

import re

from bridgehead.images.references import Reference

from . import image_files
from .standin import StandIn

_ANY = re.compile(r".*")
# Tags that exist or may exist. An image with any other tag cannot be pulled, as tutorials about rollouts expect.
_NGINX_TAG = re.compile(r"(latest|stable|mainline|alpine|perl|1(\.\d{1,2}){0,2})?(-[a-z0-9.]+)*")
_HTTPD_TAG = re.compile(r"(latest|alpine|2(\.\d{1,2}){0,2})?(-[a-z0-9.]+)*")
_REDIS_TAG = re.compile(r"(latest|alpine|[2-8](\.\d{1,2}){0,2})?(-[a-z0-9.]+)*")

_BALANCER_TAG = re.compile(r"(main|master|latest|v?0(\.\d{1,2}){1,2}(-[a-z0-9.]+)*)?")
# Tags of images with BusyBox 1.28 or an earlier one.
_OLD_ALPINE_TAG = re.compile(r"2\.\d+(\.\d+)?|3\.[0-8](\.\d+)?")
# Tutorials that use cirros without a tag are of 2018 to 2020, and show the lines of 0.4.
_OLD_CIRROS_TAG = re.compile(r"(latest|0\.[34](\.\d+)?)?")
_OLD_BUSYBOX_TAG = re.compile(r"1\.(1?\d|2[0-8])(\.\d+)?(-[a-z0-9.]+)*")

# The entrypoint of curl's image: arguments that are no command are curl's.
_CURL_OR_COMMAND = 'command -v -- "$1" >/dev/null || set -- curl "$@"; exec "$@"'

STAND_INS: tuple[StandIn, ...] = (
    StandIn(
        name="pod-test",
        description="a built-in web server that answers with the client's address, its own name and its own address",
        paths=("wangxiaochun/pod-test",),
        tags=re.compile(r"v\d+\.\d+|latest"),
        command=("pod-test",),
        programs={"pod-test": "sites.serve_pod_test"},
    ),
    StandIn(
        name="myapp",
        description="a built-in web server with the pages / and /hostname.html",
        paths=("ikubernetes/myapp",),
        tags=re.compile(r"v[1-7]|latest"),
        command=("nginx", "-g", "daemon off;"),
        programs={"nginx": "sites.serve_myapp"},
    ),
    StandIn(
        name="nginx",
        description="a built-in web server for the files in /usr/share/nginx/html",
        paths=("library/nginx", "nginx/nginx", "nginxinc/nginx-unprivileged", "e2e-test-images/nginx"),
        tags=_NGINX_TAG,
        command=("nginx", "-g", "daemon off;"),
        programs={"nginx": "sites.serve_nginx"},
        files=image_files.NGINX_FILES,
    ),
    # Kubernetes' own nginx, in its tutorials of StatefulSets.
    StandIn(
        name="nginx-slim",
        description="a built-in web server for the files in /usr/share/nginx/html",
        paths=("nginx-slim",),
        tags=re.compile(r"0\.\d+|latest"),
        command=("nginx", "-g", "daemon off;"),
        programs={"nginx": "sites.serve_nginx"},
        files=image_files.NGINX_FILES,
    ),
    StandIn(
        name="httpd",
        description="a built-in web server for the files in /usr/local/apache2/htdocs",
        paths=("library/httpd", "e2e-test-images/httpd"),
        tags=_HTTPD_TAG,
        command=("httpd-foreground",),
        working_dir="/usr/local/apache2",
        programs={"httpd-foreground": "sites.serve_httpd"},
        files=image_files.HTTPD_FILES,
    ),
    StandIn(
        name="node-hello",
        description="a built-in web server on port 8080 that says Hello Kubernetes!",
        paths=("google-samples/node-hello",),
        tags=_ANY,
        command=("node-hello",),
        programs={"node-hello": "sites.serve_node_hello"},
    ),
    StandIn(
        name="redis",
        description="a small built-in server of the Redis protocol that keeps its keys in memory",
        paths=("library/redis",),
        tags=_REDIS_TAG,
        command=("redis-server",),
        programs={"redis-server": "redis.serve", "redis-cli": "redis_cli.run"},
    ),
    StandIn(
        name="agnhost",
        description="built-in servers and commands of agnhost, and the host's shell and network tools",
        paths=("e2e-test-images/agnhost",),
        tags=_ANY,
        entrypoint=("/agnhost",),
        command=("pause",),
        programs={"agnhost": "agnhost.commands.run", "agnhost-2": "agnhost.commands.run", "nc": "agnhost.netcat.run"},
        tools="network",
    ),
    StandIn(
        name="nautilus",
        description="a built-in web server with the page /data.json, which names the image's picture",
        paths=("e2e-test-images/nautilus", "e2e-test-images/kitten"),
        tags=_ANY,
        entrypoint=("/nautilus",),
        programs={"nautilus": "sites.serve_nautilus"},
    ),
    # The versions that tutorials use for their nslookup.
    StandIn(
        name="old-busybox",
        description="the host's BusyBox, or its shell and tools where it has none, and a built-in nslookup as in 1.28",
        paths=("library/busybox",),
        tags=_OLD_BUSYBOX_TAG,
        command=("sh",),
        programs={"nslookup": "busybox.old_nslookup.run"},
        tools="busybox",
    ),
    StandIn(
        name="old-alpine",
        description="the host's BusyBox, or its shell and tools where it has none, and a built-in nslookup as in 1.28",
        paths=("library/alpine",),
        tags=_OLD_ALPINE_TAG,
        command=("/bin/sh",),
        programs={"nslookup": "busybox.old_nslookup.run"},
        tools="busybox",
    ),
    StandIn(
        name="old-cirros",
        description="the host's BusyBox, or its shell and tools where it has none, and a built-in nslookup as in 1.28",
        paths=("library/cirros", "cirros/cirros"),
        tags=_OLD_CIRROS_TAG,
        command=("/bin/sh",),
        programs={"nslookup": "busybox.old_nslookup.run"},
        tools="busybox",
    ),
    StandIn(
        name="busybox",
        description="the host's BusyBox, or its shell and tools where it has none, and a built-in nslookup",
        paths=("library/busybox", "e2e-test-images/busybox"),
        tags=_ANY,
        command=("sh",),
        programs={"nslookup": "busybox.nslookup.run"},
        tools="busybox",
    ),
    StandIn(
        name="alpine",
        description="the host's BusyBox, or its shell and tools where it has none, and a built-in nslookup",
        paths=("library/alpine",),
        tags=_ANY,
        command=("/bin/sh",),
        programs={"nslookup": "busybox.nslookup.run"},
        tools="busybox",
    ),
    StandIn(
        name="cirros",
        description="the host's BusyBox, or its shell and tools where it has none, and a built-in nslookup",
        paths=("library/cirros", "cirros/cirros"),
        tags=_ANY,
        command=("/bin/sh",),
        programs={"nslookup": "busybox.nslookup.run"},
        tools="busybox",
    ),
    StandIn(
        name="admin-box",
        description="the host's shell and network tools",
        paths=("wangxiaochun/admin-box", "ikubernetes/admin-box"),
        tags=_ANY,
        command=("/bin/sh", "-c", "sleep infinity"),
        programs={"redis-cli": "redis_cli.run"},
        tools="network",
    ),
    StandIn(
        name="netshoot",
        description="the host's shell and network tools",
        paths=("nicolaka/netshoot", "e2e-test-images/jessie-dnsutils"),
        tags=_ANY,
        command=("/bin/sh",),
        tools="network",
    ),
    StandIn(
        name="curl",
        description="the host's curl, shell and tools",
        paths=("curlimages/curl", "curl/curl"),
        tags=_ANY,
        entrypoint=("/bin/sh", "-c", _CURL_OR_COMMAND, "sh"),
        command=("curl",),
        programs={"nslookup": "busybox.nslookup.run"},
        tools="busybox",
    ),
    # These run beside the lab's own balancer, which serves the objects of both projects.
    StandIn(
        name="metallb-controller",
        description="a built-in program that answers probes; the lab's own balancer serves MetalLB's objects",
        paths=("metallb/controller",),
        tags=_BALANCER_TAG,
        entrypoint=("/controller",),
        programs={"controller": "load_balancers.serve_metallb_controller"},
    ),
    StandIn(
        name="metallb-speaker",
        description="a built-in program that answers probes; the lab's own speakers announce the addresses",
        paths=("metallb/speaker",),
        tags=_BALANCER_TAG,
        entrypoint=("/speaker",),
        programs={"speaker": "load_balancers.serve_metallb_speaker", "cp-tool": "load_balancers.copy_file"},
        files=image_files.SPEAKER_FILES,
    ),
    StandIn(
        name="frr",
        description="built-in programs that answer probes; the lab's own speakers have the BGP sessions",
        paths=("frrouting/frr",),
        tags=_ANY,
        entrypoint=("/sbin/tini", "--", "/usr/lib/frr/docker-start"),
        programs={
            "frr-metrics": "load_balancers.serve_frr_metrics",
            "frr-reloader.sh": "load_balancers.serve_frr_reloader",
        },
        files=image_files.FRR_FILES,
        tools="busybox",
    ),
    StandIn(
        name="openelb-controller",
        description="a built-in program that answers probes; the lab's own balancer serves OpenELB's objects",
        paths=("kubesphere/openelb-controller", "kubesphere/openelb"),
        tags=_BALANCER_TAG,
        command=("openelb-controller",),
        programs={
            "openelb-controller": "load_balancers.serve_openelb_controller",
            "openelb-manager": "load_balancers.serve_openelb_controller",
            "gobgp": "load_balancers.answer_gobgp",
        },
    ),
    StandIn(
        name="openelb-speaker",
        description="a built-in program that answers probes; the lab's own speakers announce the addresses",
        paths=("kubesphere/openelb-speaker",),
        tags=_BALANCER_TAG,
        command=("openelb-speaker",),
        programs={
            "openelb-speaker": "load_balancers.serve_openelb_speaker",
            "gobgp": "load_balancers.answer_gobgp",
        },
    ),
    StandIn(
        name="kube-webhook-certgen",
        description="a built-in program with the commands create and patch",
        paths=("kube-webhook-certgen",),
        tags=_ANY,
        entrypoint=("/kube-webhook-certgen",),
        programs={"kube-webhook-certgen": "certgen.run"},
    ),
    StandIn(
        name="pause",
        description="a built-in program that does nothing until SIGTERM",
        paths=("pause",),
        tags=_ANY,
        entrypoint=("/pause",),
        programs={"pause": "pause.pause"},
    ),
)


def find_stand_in(reference: Reference) -> StandIn | None:
    """Return the first stand-in whose paths and tags match the image's name."""
    return next((each for each in STAND_INS if _matches(each, reference)), None)


def _matches(stand_in: StandIn, reference: Reference) -> bool:
    return any(map(reference.has_path, stand_in.paths)) and bool(stand_in.tags.fullmatch(reference.tag))


def image_names() -> list[str]:
    """Return the last component of each path that has a stand-in, once."""
    return list(dict.fromkeys(path.rpartition("/")[2] for stand_in in STAND_INS for path in stand_in.paths))
