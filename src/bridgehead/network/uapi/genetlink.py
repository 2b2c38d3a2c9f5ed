"""linux/genetlink.h: generic netlink, and the controller that resolves the names of its families."""

from typing import Final

GENL_ID_CTRL: Final = 16
CTRL_CMD_GETFAMILY: Final = 3
CTRL_ATTR_FAMILY_ID: Final = 1
CTRL_ATTR_FAMILY_NAME: Final = 2
