"""The table of escape attempts: how the attacker's pods are made, what runs in them, what has to be seen.

No attempt may show a canary (`escape_world.Machine`) or leave a file named `escaped-...` on the machine; that is
looked at for every row. A row names what else counts. `@MACHINE@`, `@HOME@` and `@STATE@` in manifests are paths of the
machine: a directory that everybody may read, the home and the state directory of the user who started the lab.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

UDP_PORT = 7007
# The default set of containerd: tests/integration/test_kubelet_runtimes.py names them.
DEFAULT_CAPABILITIES = "00000000a80425fb"
NOT_OPEN = r"\bOPEN\b"
# Settings that belong to the machine and not to a namespace.
MACHINE_SETTINGS = r"(core_pattern|modprobe|drop_caches|file-max|/sysrq|panic): OPEN"
MACHINE_SYS = r"(state|uevent_helper|enabled|redirect_dir|online): OPEN"
ALL = ("machine", "home", "state", "environ", "process", "keyring", "secret", "ipc", "etc", "homes")
# A pod with the node's own powers may see the node and all its pods, still nothing of the machine.
OF_THE_MACHINE = tuple(kind for kind in ALL if kind not in ("secret", "ipc"))


@dataclass(frozen=True)
class Attempt:
    """A function of `escape_programs` in a running container of the pod `pod`.

    `expect` has to be found in what it answers and `forbid` must not be; `hidden` are the kinds of canaries that it
    must not show. `main`: not by `kubectl exec` but as the container's first process.
    """

    name: str
    pod: str
    program: str
    _: KW_ONLY
    expect: str = ""
    forbid: str = NOT_OPEN
    hidden: tuple[str, ...] = ALL
    config: dict[str, str] = field(default_factory=dict)
    main: bool = False


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container whose log, state, termination message and Events are what is looked at."""

    name: str
    pod: str
    container: str = "c"
    expect: str = ""
    forbid: str = ""
    hidden: tuple[str, ...] = ALL


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A function of `escape_scenarios`; what it answers is what is looked at. `is_alone`: after all others, which it
    would disturb."""

    name: str
    is_alone: bool = False
    expect: str = ""
    forbid: str = ""
    hidden: tuple[str, ...] = ALL


Row = Attempt | Container | Scenario


# Pods in which attempts run one after the other.


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": "node1",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": list(containers) or [sleeper()],
            **spec,
        },
    }


def sleeper(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "busybox", "command": ["sleep", "3600"], **fields}


def shell(script: str, name: str = "c", image: str = "busybox", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": image, "command": ["sh", "-c", script], **fields}


def empty(name: str = "v") -> dict[str, Any]:
    return {"name": name, "emptyDir": {}}


def host_path(path: str, kind: str = "", name: str = "v") -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def at(path: str, name: str = "v", **fields: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **fields}


UNCONFINED = {"seccompProfile": {"type": "Unconfined"}}
WHOLE_NODE = {"hostPID": True, "hostNetwork": True, "hostIPC": True}

RUNNING_PODS = [
    pod("plain", sleeper(volumeMounts=[at("/volume")]), volumes=[empty()]),
    pod("nginx", {"name": "c", "image": "nginx"}),
    pod("redis", {"name": "c", "image": "redis"}),
    pod(
        "archive",
        {"name": "c", "image": "example.com/attempts/archive:1", "command": ["/bin/busybox", "sleep", "3600"]},
    ),
    pod("unconfined", sleeper(securityContext=UNCONFINED)),
    pod("modest", sleeper(securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}})),
    pod("privileged", sleeper(securityContext={"privileged": True}, volumeMounts=[at("/volume")]), volumes=[empty()]),
    pod(
        "node-shell",
        sleeper(securityContext={"privileged": True}, volumeMounts=[at("/host")]),
        volumes=[host_path("/")],
        **WHOLE_NODE,
    ),
    pod("root-path", sleeper(volumeMounts=[at("/host")]), volumes=[host_path("/")]),
    pod("host-pid", sleeper(), hostPID=True),
    pod("host-network", sleeper(), hostNetwork=True),
    pod("host-ipc", sleeper(), hostIPC=True),
    pod(
        "many-volumes",
        sleeper(
            volumeMounts=[
                at("/v/empty", "empty"),
                at("/v/memory", "memory"),
                at("/v/node", "node"),
                at("/v/map", "map"),
                at("/v/sub", "empty", subPath="sub"),
                at("/volume", "empty"),
            ]
        ),
        volumes=[
            empty("empty"),
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
            host_path("/var/lib/attempts", "DirectoryOrCreate", "node"),
            {"name": "map", "configMap": {"name": "kube-root-ca.crt"}},
        ],
    ),
    pod("terminal", sleeper(tty=True, stdin=True)),
    # Makes a directory on the node, and in it links of every kind to the machine's: the next pods try these.
    pod(
        "linker",
        shell(
            "cd /v && rm -rf * && mkdir -p d/e && ln -s @MACHINE@ absolute && "
            "ln -s ../../../../../../../../../../../..@MACHINE@ relative && ln -s absolute chain && ln -s / root && "
            "ln -s @MACHINE@/canary file && ln -s /proc/1/root first && ln -s /proc/self/root self && "
            "ln -s ../absolute d/up && ln -s @MACHINE@ d/e/deep && sleep 3600",
            volumeMounts=[at("/v")],
            readinessProbe={"exec": {"command": ["test", "-L", "/v/d/e/deep"]}, "periodSeconds": 1},
        ),
        volumes=[host_path("/var/lib/links", "DirectoryOrCreate")],
    ),
]

MAIN_POD = "first-process"


def attempts() -> list[Attempt]:
    return [
        *_identity(),
        *_files(),
        *_devices(),
        *_kernel(),
        *_namespaces(),
        *_processes(),
        *_calls(),
        *_pods(),
        *_node(),
    ]


def _identity() -> list[Attempt]:
    rows = []
    for main, where, how in ((False, "plain", "exec"), (True, MAIN_POD, "first process")):
        bounding = (
            rf"CapPrm:\s*{DEFAULT_CAPABILITIES}\nCapEff:\s*{DEFAULT_CAPABILITIES}\nCapBnd:\s*{DEFAULT_CAPABILITIES}"
        )
        rows += [
            Attempt(f"capabilities, {how}", where, "credentials", expect=bounding, main=main),
            Attempt(f"no inheritable capabilities, {how}", where, "credentials",
                    expect=r"(?s)CapInh:\s*0+\n.*CapAmb:\s*0+\n", main=main),
            Attempt(f"seccomp filter, {how}", where, "credentials", expect=r"Seccomp:\s*2", main=main),
            Attempt(f"inherited descriptors, {how}", where, "descriptors",
                    expect=r"\A(?:[012] (?:pipe:\[\d+\]|/dev/null)\n?){3}\Z", main=main),
            Attempt(f"environment of who started the lab, {how}", where, "own_environment", main=main),
        ]  # fmt: skip
    return [
        *rows,
        Attempt("no_new_privs when asked for", "modest", "credentials", expect=r"NoNewPrivs:\s*1"),
        Attempt("capabilities dropped", "modest", "credentials", expect=r"CapBnd:\s*0{16}"),
        Attempt("seccomp filter, privileged", "privileged", "credentials", expect=r"Seccomp:\s*0"),
    ]


def _files() -> list[Attempt]:
    return [
        Attempt("machine's file by name", "plain", "canary_by_name"),
        Attempt("machine's file by search", "plain", "canary_by_search", expect=r"\Anothing\Z"),
        Attempt("machine's file by /proc links", "plain", "canary_by_process"),
        Attempt("machine's file by /proc links, stand-in", "nginx", "canary_by_process"),
        Attempt("machine's file by .. of /proc links", "plain", "proc_directory_break"),
        Attempt("chroot break", "plain", "chroot_break", expect=r"ENOENT|EPERM"),
        Attempt("file handle", "plain", "file_handle", expect=r"\AEPERM\Z"),
        Attempt("root's files in /etc", "plain", "root_only_files"),
        Attempt("home directories", "plain", "homes", expect=r"\Aempty\Z"),
        Attempt("unix sockets by name", "plain", "unix_sockets_by_name", expect=r"\Anone\Z"),
        Attempt("machine's file by name, host network", "host-network", "canary_by_name"),
        Attempt("machine's file by search, unconfined", "unconfined", "canary_by_search"),
    ]  # fmt: skip


def _devices() -> list[Attempt]:
    refused = r"E(PERM|ACCES|ROFS|EXIST)"
    return [
        Attempt("block device in a volume", "plain", "block_device_in_volume", expect=refused),
        Attempt("block device in the root", "plain", "block_device_in_root", expect=refused),
        Attempt("block device in a volume, privileged", "privileged", "block_device_in_volume", expect=refused),
        Attempt("character device in a volume", "plain", "character_device_in_volume", expect=refused),
        Attempt("character device in the root", "plain", "character_device_in_root", expect=refused),
        Attempt("character device, privileged", "privileged", "character_device_in_root", expect=refused),
        Attempt("devices in /dev", "plain", "devices_shown",
                expect=r"\Afull null random tty urandom zero\Z"),
        Attempt("flags of volume mounts", "many-volumes", "mount_flags", expect="all have"),
        Attempt("set-user-ID file in a volume", "many-volumes", "set_user_id_file", expect="nosuid"),
        Attempt("flags of the node's mounts", "root-path", "mount_flags", expect="all have"),
    ]  # fmt: skip


def _kernel() -> list[Attempt]:
    return [
        Attempt("kernel settings", "plain", "write_kernel_settings"),
        Attempt("network settings", "plain", "write_network_settings"),
        Attempt("network settings, host network", "host-network", "write_network_settings"),
        Attempt("kernel settings, privileged", "privileged", "write_kernel_settings",
                forbid=MACHINE_SETTINGS, hidden=OF_THE_MACHINE),
        Attempt("/proc files", "plain", "write_proc"),
        Attempt("/proc files, privileged", "privileged", "write_proc", hidden=OF_THE_MACHINE),
        Attempt("/sys files", "plain", "write_sys"),
        Attempt("/sys files, privileged", "privileged", "write_sys",
                forbid=MACHINE_SYS, hidden=OF_THE_MACHINE),
        *(
            Attempt(f"{name} by hostPath", "root-path", program,
                    forbid=forbid, hidden=OF_THE_MACHINE, config={"below": "/host"})
            for name, program, forbid in (
                ("kernel settings", "write_kernel_settings", MACHINE_SETTINGS),
                ("/proc files", "write_proc", NOT_OPEN),
                ("/sys files", "write_sys", MACHINE_SYS),
            )
        ),
        Attempt("cgroups", "plain", "write_cgroups"),
        Attempt("cgroups, unconfined", "unconfined", "write_cgroups"),
        Attempt("masked files", "plain", "masked_files", forbid=r": [1-9]\d* bytes"),
        Attempt("masked directories", "plain", "masked_directories", forbid=r"\[.+\]"),
        Attempt("read-only paths", "plain", "read_only_paths", expect=r"\Aread-only\Z"),
    ]  # fmt: skip


def _namespaces() -> list[Attempt]:
    return [
        Attempt("mounts", "plain", "mounting"),
        Attempt("read-only mounts made writable", "plain", "write_to_read_only", forbid="WRITTEN|OPEN"),
        Attempt("mounts, unconfined", "unconfined", "mounting"),
        Attempt("new namespaces", "plain", "new_namespaces", expect="EPERM"),
        Attempt("new namespaces, no capabilities", "modest", "new_namespaces", expect="EPERM"),
        Attempt("masks taken off in a user namespace", "unconfined", "unmask_in_user_namespace"),
        Attempt("masks taken off, with the filter", "plain", "unmask_in_user_namespace", expect="EPERM"),
        Attempt("others' namespaces", "plain", "enter_namespaces", expect="no other namespaces"),
        Attempt("others' namespaces, host PIDs", "host-pid", "enter_namespaces"),
        Attempt("others' namespaces, stand-in", "nginx", "enter_namespaces", expect="no other|EACCES"),
    ]  # fmt: skip


def _processes() -> list[Attempt]:
    refused = r"E(ACCES|PERM)"
    return [
        Attempt("environment of a stand-in", "nginx", "environments"),
        Attempt("seccomp filter of a stand-in", "nginx", "status_of_first", expect=r"Seccomp:\s*2"),
        Attempt("capabilities of a stand-in", "nginx", "status_of_first",
                expect=rf"CapBnd:\s*{DEFAULT_CAPABILITIES}"),
        Attempt("memory of a stand-in", "nginx", "memory", expect=refused, forbid="readable"),
        Attempt("memory of another stand-in", "redis", "memory", expect=refused, forbid="readable"),
        Attempt("files of a stand-in's process", "nginx", "memory_of_first", expect=refused,
                forbid="mem: OPEN"),
        Attempt("process_vm_readv of a stand-in", "nginx", "memory_by_call", expect=refused),
        Attempt("descriptors of a stand-in", "nginx", "take_descriptors", expect=r"\AEPERM\Z"),
        Attempt("program of a stand-in overwritten", "nginx", "overwrite_program", expect=r"E(ACCES|PERM|TXTBSY)"),
        Attempt("mapped files of a stand-in", "nginx", "mapped_files", expect=refused),
        Attempt("ptrace of a stand-in", "nginx", "trace", expect=r"first: EPERM"),
        Attempt("ptrace across pods", "plain", "trace", forbid="others: (OPEN|EPERM)"),
        Attempt("signals across pods", "plain", "signal_others", expect="nobody"),
        Attempt("processes that can be seen", "plain", "process_count", expect=r"\A1 processes"),
        Attempt("memory of its own first process", "plain", "memory", forbid=""),
    ]  # fmt: skip


def _calls() -> list[Attempt]:
    refused = {
        "io_uring": "EPERM", "bpf": "EPERM", "perf_events": "EPERM", "user_faults": "EPERM", "kexec": "EPERM|ENOSYS",
        "load_module": "EPERM", "key_rings": "(?s)add_key: EPERM.*keyctl: EPERM", "request_key": "EPERM",
        "reboot": "EPERM", "set_clock": "EPERM", "set_time_of_day": "EPERM", "set_host_name": "EPERM",
        "swap": "EPERM", "process_accounting": "EPERM", "kernel_log": "EPERM", "io_ports": "EPERM|ENOSYS",
        "file_handles": "EPERM", "quotas": "EPERM", "file_events": "EPERM",
    }  # fmt: skip
    of_the_machine = {
        "kexec": "EPERM|ENOSYS", "load_module": "EPERM|ENOSYS", "reboot": "EPERM|EINVAL", "set_clock": "EPERM",
        "set_time_of_day": "EPERM", "swap": "EPERM", "process_accounting": "EPERM", "kernel_log": "EPERM",
        "file_handle": "EPERM|ESTALE", "key_rings": "keyctl: E",
    }  # fmt: skip
    return [
        Attempt("system call by int 0x80 and x32", "plain", "compatible_calls"),
        Attempt("clone and clone3", "plain", "clone_into_namespaces", expect="clone: EPERM"),
        Attempt("vsock", "plain", "virtual_machine_sockets", expect="EPERM|EAFNOSUPPORT"),
        *(
            Attempt(f"system call: {program.replace('_', ' ')}", "plain", program, expect=expect)
            for program, expect in refused.items()
        ),
        *(
            Attempt(
                f"privileged: {program.replace('_', ' ')}",
                "privileged",
                program,
                expect=expect,
                forbid="OPEN" if program != "key_rings" else "OPEN CANARY",
                hidden=OF_THE_MACHINE,
            )
            for program, expect in of_the_machine.items()
        ),
    ]


def _pods() -> list[Attempt]:
    return [
        Attempt("abstract socket of a pod", "plain", "abstract_socket", expect="ECONNREFUSED"),
        Attempt("abstract sockets of the lab", "plain", "abstract_sockets_listed", expect="none"),
        Attempt("abstract sockets of the machine", "host-network", "abstract_sockets_listed"),
        Attempt("System V shared memory of a pod", "plain", "shared_memory", expect="ENOENT"),
        Attempt("System V shared memory of a pod, host IPC", "host-ipc", "shared_memory", expect="ENOENT"),
        Attempt("POSIX message queue of a pod", "plain", "message_queue", expect="ENOENT"),
        Attempt("POSIX shared memory of a pod", "plain", "posix_shared_memory", expect="ENOENT"),
        Attempt("netlink: links, routes, addresses", "plain", "change_links",
                expect="(?s)link: EPERM.*route: EPERM.*address: EPERM"),
        Attempt("netlink: the node's links", "host-network", "change_links", expect="EPERM|OSError|ENODEV"),
        Attempt("nftables", "plain", "change_rules", expect="EPERM"),
        Attempt("nftables of the node", "host-network", "change_rules", expect="EPERM"),
        Attempt("machine's loopback", "plain", "machine_loopback", expect="ECONNREFUSED"),
        Attempt("machine's loopback, host network", "host-network", "machine_loopback", expect="ECONNREFUSED"),
        Attempt("Secrets by the pod's token", "plain", "secrets_by_token", expect="(?s)403.*403.*403"),
        Attempt("kubelet without a certificate", "plain", "kubelet_port", expect="40[13]"),
        Attempt("terminals of others", "plain", "terminals", expect=r"\Apts: ptmx\Z"),
        Attempt("controlling terminal", "plain", "controlling_terminal", expect=r"(?s)tty: ENXIO.*console: E"),
        Attempt("input inserted", "plain", "insert_input"),
    ]  # fmt: skip


def _node() -> list[Attempt]:
    """Pods with the node's own powers: they see the node's root and processes."""
    rows = []
    for where, base in (("node-shell", "/host"), ("root-path", "/host")):
        below = {"etc": f"{base}/etc", "homes": f"{base}/root {base}/home"}
        rows += [
            Attempt(f"machine's file below the node's root, {where}", where, "canary_by_search"),
            Attempt(f"root's files in the node's /etc, {where}", where, "root_only_files", config=below),
            Attempt(f"home directories of the node, {where}", where, "homes", config=below),
        ]
    rows += [
        Attempt("links for hostPath are there", "linker", "links_in_volume", expect="absolute chain d file"),
        Attempt("first process's mounts, node-shell", "node-shell", "enter_first_process"),
        Attempt("machine's file by processes, node-shell", "node-shell", "canary_by_process"),
        Attempt("machine's processes, node-shell", "node-shell", "command_lines"),
        Attempt("environments, node-shell", "node-shell", "environments"),
        Attempt("memory of all processes, node-shell", "node-shell", "memory", forbid=""),
        Attempt("machine's processes, host PIDs", "host-pid", "command_lines"),
        Attempt("environments, host PIDs", "host-pid", "environments"),
        Attempt("memory of all processes, host PIDs", "host-pid", "memory", forbid=""),
        Attempt("machine's file by processes, host PIDs", "host-pid", "canary_by_process"),
        Attempt(
            name="read-only mounts made writable, node-shell",
            pod="node-shell",
            program="write_to_read_only",
            forbid="WRITTEN /host",
        ),
        Attempt("the API's socket on the machine, node-shell", "node-shell", "machine_sockets"),
        Attempt("the lab's store and keys, node-shell", "node-shell", "state_by_process"),
        Attempt("the lab's store and keys, hostPath", "root-path", "state_by_process"),
        Attempt("file handle, node-shell", "node-shell", "file_handle"),
        Attempt("machine's keys, node-shell", "node-shell", "key_rings", forbid="OPEN CANARY"),
        Attempt("block device, node-shell", "node-shell", "block_device_in_root"),
    ]
    return [replace(row, hidden=OF_THE_MACHINE) for row in rows]


# Pods that are made once and looked at: each container tries one thing.

LOOK = "ls -la {0}; cat {0} {0}/canary; cat {0}@MACHINE@/canary; touch {0}/escaped-{1}; true"


def once_pods() -> list[dict[str, Any]]:
    pods = []
    for name, path, kind in HOST_PATHS:
        pods.append(
            pod(
                f"path-{name}",
                shell(LOOK.format("/v", f"path-{name}"), volumeMounts=[at("/v")]),
                volumes=[host_path(path, kind)],
            )
        )
    pods += [_sub_paths(), _mount_points(), _messages(), _working_directories(), *_images(), _over_proc()]
    return pods


HOST_PATHS = [
    ("directory", "@MACHINE@", "Directory"),
    ("anything", "@MACHINE@", ""),
    ("file", "@MACHINE@/canary", "File"),
    ("new-directory", "@MACHINE@/escaped-directory", "DirectoryOrCreate"),
    ("new-file", "@MACHINE@/escaped-file", "FileOrCreate"),
    ("implied", "@MACHINE@/escaped-implied/deep", ""),
    ("home", "@HOME@", ""),
    ("state", "@STATE@", ""),
    ("link-absolute", "/var/lib/links/absolute", ""),
    ("link-relative", "/var/lib/links/relative", ""),
    ("link-chain", "/var/lib/links/chain", ""),
    ("link-inside", "/var/lib/links/root@MACHINE@", ""),
    ("link-deep", "/var/lib/links/d/e/deep", ""),
    ("link-up", "/var/lib/links/d/up/escaped-up", "DirectoryOrCreate"),
    ("link-file", "/var/lib/links/file", ""),
    ("link-first", "/var/lib/links/first@MACHINE@", ""),
    ("link-self", "/var/lib/links/self@MACHINE@", ""),
    ("proc-first-root", "/proc/1/root@MACHINE@", ""),
    ("proc-self-root", "/proc/self/root@MACHINE@", ""),
    ("proc-first-cwd", "/proc/1/cwd", ""),
    ("proc-self-cwd", "/proc/self/cwd", ""),
    ("proc-task-root", "/proc/thread-self/root@MACHINE@", ""),
    ("proc-first-state", "/proc/1/root@STATE@/pki", ""),
    ("dev-descriptor", "/dev/fd/3", ""),
]  # fmt: skip

SUB_PATHS = {
    "absolute": "absolute",
    "relative": "relative",
    "chain": "chain",
    "inside": "root@MACHINE@",
    "file": "file",
    "first": "first@MACHINE@",
    "self": "self@MACHINE@",
    "up": "d/up",
    "new": "absolute/escaped-subpath",
    "new-deep": "d/up/escaped-subpath/deep",
    "parent": "parent",
}
MAKE_LINKS = (
    "cd /v && mkdir d && ln -s @MACHINE@ absolute && ln -s ../../../../../../../../../../../..@MACHINE@ relative && "
    "ln -s absolute chain && ln -s / root && ln -s @MACHINE@/canary file && ln -s /proc/1/root first && "
    "ln -s /proc/self/root self && ln -s ../absolute d/up && ln -s .. parent && ln -s @MACHINE@/escaped-message message"
)


def _sub_paths() -> dict[str, Any]:
    return pod(
        "sub-paths",
        *(
            shell(LOOK.format("/w", f"sub-{name}"), name, volumeMounts=[at("/w", subPath=path)])
            for name, path in SUB_PATHS.items()
        ),
        shell(
            LOOK.format("/w", "sub-expression"),
            "expression",
            env=[{"name": "WHERE", "value": "../../../../../../../../../.."}],
            volumeMounts=[at("/w", subPathExpr="$(WHERE)@MACHINE@")],
        ),
        initContainers=[shell(MAKE_LINKS, "links", volumeMounts=[at("/v")])],
        volumes=[empty()],
    )


MOUNT_POINTS = {
    "absolute": "absolute/escaped-mount",
    "relative": "relative/escaped-mount",
    "itself": "absolute",
    "inside": "root@MACHINE@/escaped-mount",
    "first": "first@MACHINE@/escaped-mount",
    "parent": "parent/escaped-mount",
    "file": "file",
}


def _mount_points() -> dict[str, Any]:
    """A second volume below the first one, which has links."""
    return pod(
        "mount-points",
        *(
            shell(
                LOOK.format("/v", f"mount-{name}"),
                name,
                volumeMounts=[at("/v"), at(f"/v/{path}", "other", **({"subPath": "ca.crt"} if name == "file" else {}))],
            )
            for name, path in MOUNT_POINTS.items()
        ),
        shell("ls -la /; cat @MACHINE@/canary", "root", volumeMounts=[at("/")]),
        initContainers=[shell(MAKE_LINKS, "links", volumeMounts=[at("/v")])],
        volumes=[empty(), {"name": "other", "configMap": {"name": "kube-root-ca.crt"}}],
    )


MESSAGES = {
    "link": "/v/message",
    "absolute": "/v/absolute/escaped-message",
    "relative": "/v/relative/escaped-message",
    "file": "/v/file",
    "dots": "/../../../../../../../../../..@MACHINE@/escaped-message",
    "proc": "/proc/self/root/../..@MACHINE@/escaped-message",
    "first": "/proc/1/root@MACHINE@/escaped-message",
}


def _messages() -> dict[str, Any]:
    return pod(
        "messages",
        *(
            shell(f"cat {path}; echo ended >{path}", name, terminationMessagePath=path, volumeMounts=[at("/v")])
            for name, path in MESSAGES.items()
        ),
        initContainers=[shell(MAKE_LINKS, "links", volumeMounts=[at("/v")])],
        volumes=[empty()],
    )


DESCRIPTORS = range(3, 24)


def _working_directories() -> dict[str, Any]:
    """CVE-2024-21626: a descriptor of the runtime as working directory."""
    up = "../" * 20
    script = f"ls -la /proc/self/cwd; cat {up}@MACHINE@/canary; cat canary; true"
    return pod(
        "working-directories",
        *(shell(script, f"descriptor-{fd}", workingDir=f"/proc/self/fd/{fd}") for fd in DESCRIPTORS),
        shell(script, "link", workingDir="/v/absolute", volumeMounts=[at("/v")]),
        shell(script, "dots", workingDir="/../../../../../../../../../..@MACHINE@"),
        shell(script, "first", workingDir="/proc/1/cwd"),
        initContainers=[shell(MAKE_LINKS, "links", volumeMounts=[at("/v")])],
        volumes=[empty()],
    )


@dataclass(frozen=True, kw_only=True)
class HostileImage:
    """An image in the store: BusyBox, and `links` (path in the image -> target); `configuration` is its image.json.
    A link's path replaces what the image has there. With `device` the image has a block device, with `archive` a `tar`
    that answers with an archive of files outside of where it is unpacked."""

    links: dict[str, str] = field(default_factory=dict)
    configuration: dict[str, Any] = field(default_factory=dict)
    device: bool = False
    archive: bool = False


IMAGES = {
    "etc-absolute": HostileImage(links={"etc": "@MACHINE@"}),
    "etc-relative": HostileImage(links={"etc": "../../../../../../../../../../../..@MACHINE@"}),
    "passwd": HostileImage(links={"etc/passwd": "@MACHINE@/canary"}),
    "hosts": HostileImage(links={"etc/hosts": "@MACHINE@/escaped-hosts", "etc/resolv.conf": "@MACHINE@/canary"}),
    "proc": HostileImage(links={"proc": "@MACHINE@"}),
    "sys": HostileImage(links={"sys": "@MACHINE@"}),
    "dev": HostileImage(links={"dev": "@MACHINE@"}),
    "working-dir": HostileImage(links={"work": "@MACHINE@"}, configuration={"WorkingDir": "/work"}),
    "new-working-dir": HostileImage(links={"work": "@MACHINE@"}, configuration={"WorkingDir": "/work/escaped-work"}),
    "program": HostileImage(links={"run-me": "@MACHINE@/program"}, configuration={"Entrypoint": ["/run-me"]}),
    "volume": HostileImage(links={"v": "@MACHINE@"}),
    "device": HostileImage(device=True),
    "archive": HostileImage(archive=True),
    "loop": HostileImage(links={"etc": "/etc", "tmp": "tmp"}),
}  # fmt: skip


def _images() -> list[dict[str, Any]]:
    pods = []
    for name, image in IMAGES.items():
        container = shell(
            "cd /; /bin/busybox ls -la / /etc /v .; /bin/busybox cat /etc/canary /etc/passwd /etc/hosts "
            "/etc/resolv.conf /proc/canary /sys/canary /dev/canary /work/canary /v/canary @MACHINE@/canary; "
            "/bin/busybox dd if=/device of=/dev/null bs=1 count=1 && echo OPEN; true",
            image=f"example.com/attempts/{name}:1",
        )
        container["command"] = ["/bin/busybox", *container["command"]]
        if "Entrypoint" in image.configuration:
            del container["command"]
        if name == "volume":
            container["volumeMounts"] = [at("/v/escaped-volume")]
        pods.append(pod(f"image-{name}", container, volumes=[empty()]))
    for number, image_name in enumerate(("../../../..@MACHINE@", "x/../../../..@MACHINE@", "/..@MACHINE@")):
        pods.append(pod(f"image-name-{number}", shell("cat /canary", image=image_name)))
    return pods


def _over_proc() -> dict[str, Any]:
    """Volumes on top of what the runtime mounts and masks."""
    show = "cat /proc/kcore | head -c 16 | wc -c; cat @MACHINE@/canary; mount; true"
    return pod(
        "over-proc",
        shell(show, "proc", volumeMounts=[at("/proc")]),
        shell(show, "proc-sys", volumeMounts=[at("/proc/sys")]),
        shell(show, "proc-self", volumeMounts=[at("/proc/self")]),
        shell(show, "dev", volumeMounts=[at("/dev")]),
        shell(show, "dots", volumeMounts=[at("/x/../../../../../../../..@MACHINE@/escaped-dots")]),
        volumes=[empty()],
    )


def containers() -> list[Container]:
    rows = [
        Container(name=f"hostPath: {name}", pod=f"path-{name}", hidden=OF_THE_MACHINE, forbid=r"sa\.key")
        for name, _, _ in HOST_PATHS
    ]
    rows += [Container(name=f"subPath: {name}", pod="sub-paths", container=name) for name in [*SUB_PATHS, "expression"]]
    rows += [
        Container(name=f"mount point: {name}", pod="mount-points", container=name) for name in [*MOUNT_POINTS, "root"]
    ]
    rows += [Container(name=f"termination message: {name}", pod="messages", container=name) for name in MESSAGES]
    rows += [
        Container(name=f"working directory: {name}", pod="working-directories", container=name)
        for name in ("link", "dots", "first", *(f"descriptor-{fd}" for fd in DESCRIPTORS))
    ]
    rows += [Container(name=f"image: {name}", pod=f"image-{name}", forbid=NOT_OPEN) for name in IMAGES]
    rows += [Container(name=f"image name: {number}", pod=f"image-name-{number}") for number in range(3)]
    rows += [
        Container(name=f"volume over the kernel's: {name}", pod="over-proc", container=name, forbid=r"(?m)^16$")
        for name in ("proc", "proc-sys", "proc-self", "dev", "dots")
    ]
    return rows
