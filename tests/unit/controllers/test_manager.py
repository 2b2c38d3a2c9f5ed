import asyncio
import importlib
import logging

from bridgehead.client.errors import Unreachable
from bridgehead.controllers import manager
from tests.unit.virtual_time import run_virtual


def test_a_crashing_controller_is_restarted_with_back_off(caplog):
    caplog.set_level(logging.WARNING)
    runs = []

    class Crashing:
        async def run(self) -> None:
            runs.append(asyncio.get_running_loop().time())
            if len(runs) == 1:
                raise ZeroDivisionError
            if len(runs) == 2:
                raise Unreachable("down")
            if len(runs) == 3:
                return
            await asyncio.sleep(1e9)

    async def main() -> None:
        task = asyncio.create_task(manager._run_for_ever("test", Crashing()))
        await asyncio.sleep(100)
        task.cancel()
        await asyncio.wait([task])

    run_virtual(main())
    assert runs == [0, 1, 3, 7]
    assert [bool(record.exc_info) for record in caplog.records] == [True, False, False]


def test_a_controller_that_ran_long_restarts_at_once():
    runs = []

    class Tiring:
        async def run(self) -> None:
            runs.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0 if len(runs) < 4 else 1000)
            raise Unreachable("down")

    async def main() -> None:
        task = asyncio.create_task(manager._run_for_ever("test", Tiring()))
        await asyncio.sleep(2500)
        task.cancel()
        await asyncio.wait([task])

    run_virtual(main())
    assert runs == [0, 1, 3, 7, 1007, 2007]


def test_every_name_has_its_module_and_class():
    for entry in manager.CONTROLLERS.values():
        module = importlib.import_module(f"bridgehead.controllers.{entry.module}")
        assert hasattr(module, entry.type), entry
        assert all(name in manager.Settings.__dataclass_fields__ for name in entry.settings)
