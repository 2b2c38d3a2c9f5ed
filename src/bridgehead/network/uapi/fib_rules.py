"""linux/fib_rules.h: routing policy rules."""

from typing import Final

FRA_IIFNAME: Final = 3
FRA_PRIORITY: Final = 6
FR_ACT_TO_TBL: Final = 1
FR_ACT_UNREACHABLE: Final = 7
