"""Starts the server that the clients drive, and stops it."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def served():
    """Serves with the program named first on the command line, and gives the address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([sys.argv[1], "--addr", f"127.0.0.1:{port}", *sys.argv[2:]])
    try:
        for _ in range(100):
            with contextlib.suppress(urllib.error.URLError):
                urllib.request.urlopen(f"{url}/ok", timeout=1)
                break
            time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(20)


async def drive(parts, *args) -> None:
    """Runs the parts one after the other, each with a bound on its time, and says how long each took."""
    for part in parts:
        began = time.monotonic()
        await asyncio.wait_for(part(*args), 60)
        print(f"{part.__name__}: {time.monotonic() - began:.1f} s", flush=True)
