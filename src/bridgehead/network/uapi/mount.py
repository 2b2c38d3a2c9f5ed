"""linux/mount.h: flags of mount(2) and of the newer calls on mounts."""

from typing import Final

# mount(2)
MS_RDONLY: Final = 0x1
MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000

# mount_setattr(2)
MOUNT_ATTR_RDONLY: Final = 0x1
MOUNT_ATTR_NOSUID: Final = 0x2
MOUNT_ATTR_NODEV: Final = 0x4
MOUNT_ATTR_NOEXEC: Final = 0x8
MOUNT_ATTR_IDMAP: Final = 0x100000

# open_tree(2), move_mount(2)
OPEN_TREE_CLONE: Final = 1
OPEN_TREE_CLOEXEC: Final = 0x80000
MOVE_MOUNT_F_EMPTY_PATH: Final = 4
MOVE_MOUNT_T_EMPTY_PATH: Final = 64
