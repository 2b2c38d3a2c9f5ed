"""The build of a container's root file system, by the container's first process for itself.

All that is written goes to a tmpfs that belongs to the container's mount namespace, so that nothing is left to clean
up. Files that pods can change during the build, above all their volumes, are never accessed by name: sources below a
volume and mount points inside one are resolved on descriptors, beneath the volume or inside the container's root
(openat2(2)).
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.images.store import whiteouts
from bridgehead.kubelet.directory_use import COPY, COPY_SIZE, measure_directory
from bridgehead.kubelet.nofollow import remove_tree
from bridgehead.kubelet.runtimes.runtime import Mount, Security
from bridgehead.network import syscalls

from . import (
    descriptor_paths,
    mounting,
    overlays,
    shifted_owners,
    tree_copy,
)
from .bind_mounts import PreparedMount, bind_mounts, open_source
from .kernel_file_systems import mount_kernel_file_systems
from .rootfs import (
    FRESH,
    FRESH_LINKS,
    RootFailure,
    RootPlan,
    order_mounts,
    resolve_in_root,
)

# Made in the upper directory, so that the container may write to them even where the host's root is not mapped.
_WRITABLE: Final = ("usr/share", "usr/local", "usr/local/bin", "usr/local/share")


class RootBuilder:
    """Builds a root file system for the calling process, in its own mount namespace and PID namespace.

    `base` is an empty directory of the host that the build may cover. `copies` is the directory of the container's run,
    where copies of images are made; without one they are in memory. `copies_images`: the kernel refuses overlays over
    the layers of images. `id_base`: the users of the container are those of this user namespace from there on, and its
    files belong to them. After `enter` no other files are visible.
    """

    def __init__(
        self, plan: RootPlan, base: str, copies: str = "", *, copies_images: bool = False, id_base: int = 0
    ) -> None:
        self._plan = plan
        self._base = base
        self._copies = copies or f"{base}/copies"
        self._copies_images = copies_images
        self._id_base = id_base
        self._root = f"{base}/root"
        self._lowers: dict[str, str] = {}  # for each overlay, a directory that shows its lower ones together

    def build(
        self,
        *,
        files: Mapping[str, str],
        mounts: Collection[Mount],
        image_volumes: Collection[Mount] = (),
        security: Security,
        working_dir: str,
        termination_log: str,
    ) -> int:
        """Build the root. `files`: absolute path -> content. Returns a descriptor to read the termination log.

        The sources of `image_volumes` are made, and filled with what the image has at their targets. Raises
        `RootFailure`.
        """
        mounting.mount("tmpfs", self._base, "tmpfs", syscalls.MS_NODEV, "mode=755")
        for directory in ("root", "upper", "work", "dev"):
            os.mkdir(f"{self._base}/{directory}")
        self._show_lowers()
        self._copy()
        if not self._plan.whole:
            self._make_host_skeleton()
        for path in self._plan.hidden:
            self._hide(path)
        for path, content in files.items():
            self._write(path, content)
        for directory in ("proc", "sys", "dev"):
            self._make_directories(f"/{directory}")
        for volume in image_volumes:
            self._fill(volume)
        prepared = self._prepare([*image_volumes, *mounts])
        self._give_files()  # also before the overlays, which keep the owners that they have found
        self._mount_layers()
        mount_kernel_file_systems(self._root, f"{self._base}/dev", security)
        root = os.open(self._root, os.O_PATH | os.O_CLOEXEC)
        try:
            bind_mounts(root, prepared, with_devices=security.privileged)
            messages = self._mount_termination_log(root, termination_log)
            with contextlib.suppress(OSError):  # an error is reported when the directory is entered
                os.close(descriptor_paths.make_directory_in_root(root, working_dir))
        finally:
            os.close(root)
        self._give_files()
        if security.read_only_root:
            self._make_read_only()
        return messages

    def _give_files(self) -> None:
        """Give all that was made for the container to its own users. Volumes belong to them already."""
        if not self._id_base:
            return
        try:
            for path in (self._base, self._copies):
                if os.path.isdir(path):
                    shifted_owners.shift(path, self._id_base)
        except OSError as error:
            raise RootFailure(f"failed to change the owners of the container's files: {error.strerror}") from error

    def enter(self) -> None:
        """Make the built root the root of this process's mount namespace and detach the old one."""
        os.chdir(self._root)
        syscalls.pivot_root(".", ".")
        syscalls.umount(".", syscalls.MNT_DETACH)
        os.chdir("/")

    def _copy(self) -> None:
        """Copy what can have no overlay. An image's copy is mounted as the root, so that the rest is made in it."""
        for name, layers in self._plan.copied.items():
            if name:
                os.mkdir(f"{self._root}/{name}")
                tree_copy.copy_layers(layers, f"{self._root}/{name}")
                continue
            tree_copy.show_copy(layers, f"{self._copies}/{COPY}", self._root)
            size = measure_directory(Path(self._copies, COPY))
            Path(self._copies, COPY_SIZE).write_text(str(size), encoding="ascii")

    # Before the overlays are mounted. A path is looked up in the upper and in the lower directory of its overlay.

    def _make_host_skeleton(self) -> None:
        for name, mode in FRESH.items():
            os.mkdir(f"{self._root}/{name}")
            os.chmod(f"{self._root}/{name}", mode)
        for name in _WRITABLE:
            self._make_directories(f"/{name}")
        for name, target in {**FRESH_LINKS, **self._plan.links}.items():
            self._make_directories(f"/{posixpath.dirname(name)}")
            os.symlink(target, f"{self._root}/{name}")

    def _hide(self, path: str) -> None:
        """Hide a file or directory of the lower directory by a whiteout, as overlayfs defines it. Copies have none."""
        upper = self._upper(path)
        if upper.startswith(f"{self._base}/upper/"):
            self._make_directories(posixpath.dirname(path))
            os.mknod(upper, stat.S_IFCHR, os.makedev(0, 0))

    def _lower(self, path: str) -> str | None:
        """The path in the lower directory of the overlay that has a path of the container, None without an overlay."""
        for name, lower in self._lowers.items():
            if not name:
                return lower + path
            if path == f"/{name}" or path.startswith(f"/{name}/"):
                return lower + path[len(name) + 1 :]
        return None

    def _upper(self, path: str) -> str:
        """The path at which to make a path of the container before the overlays are mounted."""
        for name in self._plan.overlays:
            if not name:
                return f"{self._base}/upper/root{path}"
            if path == f"/{name}" or path.startswith(f"/{name}/"):
                return f"{self._base}/upper/{name}{path[len(name) + 1 :]}"
        return self._root + path

    def _readlink(self, path: str) -> str | None:
        for candidate in (self._upper(path), self._lower(path)):
            if candidate is not None:
                try:
                    return os.readlink(candidate)
                except OSError:
                    continue
        return None

    def _make_directories(self, path: str) -> None:
        """Make a directory and its parents, with the attributes of the lower directories that they will cover."""
        done = ""
        for part in path.strip("/").split("/"):
            done += f"/{part}"
            upper, lower = self._upper(done), self._lower(done)
            if os.path.isdir(upper):
                continue
            found = None
            if lower is not None:
                with contextlib.suppress(OSError):
                    found = os.stat(lower)
            if found is not None and not stat.S_ISDIR(found.st_mode):
                raise RootFailure(f'failed to create directory "{path}": "{done}" is not a directory')
            os.makedirs(upper, exist_ok=True)
            if found is None:
                os.chmod(upper, 0o755)
            else:
                self._cover(upper, found)

    def _cover(self, upper: str, found: os.stat_result) -> None:
        """Give a directory the mode of the lower one that it covers, and an image's directory its owner, too."""
        if self._plan.whole:
            with contextlib.suppress(OSError):  # an id that this user namespace lacks
                os.chown(upper, found.st_uid, found.st_gid)
        os.chmod(upper, stat.S_IMODE(found.st_mode))

    def _write(self, path: str, content: str) -> None:
        resolved = resolve_in_root(path, self._readlink)
        self._make_directories(posixpath.dirname(resolved))
        with open(self._upper(resolved), "w", encoding="utf-8") as file:
            file.write(content)
        if content.startswith("#!"):
            os.chmod(self._upper(resolved), 0o755)

    def _resolve_mount_point(self, mount: Mount) -> str:
        target = resolve_in_root(mount.target, self._readlink)
        if target == "/":
            raise RootFailure(f'failed to mount at "{mount.target}": it is the root directory')
        return target

    def _fill(self, volume: Mount) -> None:
        """Make the directory of an image's volume, with the content of the image."""
        path = self._resolve_mount_point(volume)
        content = self._lower(path) or (self._root + path)
        try:
            remove_tree(Path(volume.source))  # of a start that was not completed
            os.makedirs(volume.source)
            if os.path.lexists(content):
                tree_copy.copy_directory(content, volume.source)
        except OSError as error:
            raise RootFailure(
                f'failed to copy the content of the volume "{volume.target}": {mounting.describe(error)}'
            ) from error

    def _prepare(self, mounts: Collection[Mount]) -> list[PreparedMount]:
        """Open the sources of the mounts and make the mount points."""
        prepared: list[PreparedMount] = []
        covered: list[str] = ["/dev", "/proc", "/sys", *self._plan.read_only]
        for mount in order_mounts(mounts):
            if mount.layers:
                mount = msgspec.structs.replace(mount, source=self._show_image(mount.layers, len(prepared)))
            source = open_source(mount)
            is_directory = stat.S_ISDIR(os.fstat(source).st_mode)
            target = self._resolve_mount_point(mount)
            if f"{target}/".startswith(("/proc/", "/sys/fs/cgroup/")):
                raise RootFailure(f'failed to mount at "{mount.target}": it is inside "{posixpath.dirname(target)}"')
            if any(target.startswith(f"{outer}/") for outer in covered):
                prepared.append(PreparedMount(mount, source, is_directory, None))
            else:
                self._make_mount_point(mount.target, target, is_directory=is_directory)
                prepared.append(PreparedMount(mount, source, is_directory, target))
            covered.append(target)
        return prepared

    def _show_image(self, layers: tuple[str, ...], number: int) -> str:
        """Make a directory that shows the files of an image, read-only: its layers belong to all containers."""
        shown = f"{self._base}/image-{number}"
        os.mkdir(shown, 0o755)
        # A layer alone needs no overlay, but without one its whiteouts would be seen: devices, or empty files.
        is_copied = self._copies_images if len(layers) > 1 else whiteouts.are_present(layers[0])
        if is_copied or self._id_base:
            tree_copy.show_copy(layers, f"{self._copies}/image-{number}", shown)
            syscalls.set_mount_attributes(shown, syscalls.MOUNT_ATTR_RDONLY)
        elif len(layers) > 1:
            overlays.mount_overlay(layers[::-1], shown)
        else:
            mounting.mount(layers[0], shown, "", syscalls.MS_BIND)
            syscalls.set_mount_attributes(shown, syscalls.MOUNT_ATTR_RDONLY)
        return shown

    def _make_mount_point(self, requested: str, target: str, *, is_directory: bool) -> None:
        try:
            if is_directory:
                self._make_directories(target)
            else:
                self._make_directories(posixpath.dirname(target))
                upper = self._upper(target)
                if not os.path.lexists(upper):
                    os.close(os.open(upper, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        except OSError as error:
            raise RootFailure(f'failed to create mount point "{requested}": {error.strerror}') from error

    # Mounting.

    def _show_lowers(self) -> None:
        """Make one directory of the lower directories of each overlay, to look up paths of the container in it."""
        for name, lowers in self._plan.overlays.items():
            if len(lowers) == 1:
                self._lowers[name] = lowers[0]
                continue
            shown = f"{self._base}/lower-{name or 'root'}"
            os.mkdir(shown, 0o755)
            if lowers:
                overlays.mount_overlay(lowers, shown)
            self._lowers[name] = shown

    def _mount_layers(self) -> None:
        if not self._plan.whole:
            mounting.mount(self._root, self._root, "", syscalls.MS_BIND)
        for name, lowers in self._plan.overlays.items():
            label = name or "root"
            target = f"{self._root}/{name}" if name else self._root
            for directory in (f"{self._base}/upper/{label}", f"{self._base}/work/{label}", target):
                os.makedirs(directory, exist_ok=True)
            self._cover(f"{self._base}/upper/{label}", os.stat(self._lowers[name]))
            writable = f"upperdir={self._base}/upper/{label},workdir={self._base}/work/{label}"
            overlays.mount_overlay(lowers or (self._lowers[name],), target, writable)
            if len(lowers) > 1:
                syscalls.umount(self._lowers[name], syscalls.MNT_DETACH)
        for path in self._plan.read_only:
            target = self._root + path
            if os.path.isdir(path):
                os.makedirs(target, exist_ok=True)
            else:
                os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
            mounting.mount(path, target, "", syscalls.MS_BIND | syscalls.MS_REC)
            hardened = syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NODEV
            syscalls.set_mount_attributes(target, hardened)

    def _make_read_only(self) -> None:
        """Make the root read-only, but neither volumes nor kernel file systems."""
        for name in dict.fromkeys(["", *self._plan.overlays]):
            target = f"{self._root}/{name}" if name else self._root
            syscalls.set_mount_attributes(target, syscalls.MOUNT_ATTR_RDONLY, recursive=False)

    def _mount_termination_log(self, root: int, path: str) -> int:
        """Mount an empty file that any user may write; returns a descriptor to read it."""
        source = f"{self._base}/termination-log"
        messages = os.open(source, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.fchmod(messages, 0o666)
        try:
            target = descriptor_paths.make_file_in_root(root, path)
            try:
                tree = syscalls.clone_mount(source)
                hardened = syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NODEV | syscalls.MOUNT_ATTR_NOEXEC
                syscalls.set_mount_attributes(tree, hardened)
                syscalls.attach_mount(tree, target)
                os.close(tree)
            finally:
                os.close(target)
        except OSError as error:
            raise RootFailure(f'failed to create mount point "{path}": {mounting.describe(error)}') from error
        return messages
