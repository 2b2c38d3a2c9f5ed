"""A helper process that does what `bridgehead wait` does: a script whose argument is a kubeconfig.

It is not done in the tests' process, because some connections of the client are still being closed when its event loop
ends, which is a warning, and so a failure, of whichever test runs then.
"""

from __future__ import annotations

import asyncio
import sys

from bridgehead.client import ApiClient, load_kubeconfig
from bridgehead.client.errors import ClientError
from bridgehead.insight.waiting import NotProgrammed, wait_programmed
from bridgehead.objects.meta import ObjectKey
from tests.e2e.helper_process import serve


def wait(request: tuple[str, str, float]) -> str:
    """Wait until a Service (namespace, name) is programmed, so many seconds. Return the error, "": none."""
    namespace, name, seconds = request

    async def work() -> None:
        async with ApiClient(load_kubeconfig(sys.argv[1]), "tests") as client:
            await wait_programmed(client, ObjectKey(namespace, name), seconds, lambda _missing: None)

    try:
        asyncio.run(work())
    except (NotProgrammed, ClientError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    serve(wait)
