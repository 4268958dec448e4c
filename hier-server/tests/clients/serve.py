"""Starts the server that the clients drive, and stops it."""

import asyncio
import contextlib
import subprocess
import sys
import time


def start(program: str, *options: str, address: str = "127.0.0.1:0") -> tuple[subprocess.Popen, str]:
    """Starts a server at a port of the system's choice, or at this address. It answers once it has said where."""
    server = subprocess.Popen([program, "--addr", address, *options], stdout=subprocess.PIPE, text=True)
    said = server.stdout.readline()
    if not said.startswith("serving on "):
        server.kill()
        raise RuntimeError(f"{program} ended with {server.wait()}: {said}")
    return server, said.removeprefix("serving on ").strip()


@contextlib.contextmanager
def served():
    """Serves with the program named first on the command line, and gives the address."""
    server, url = start(*sys.argv[1:])
    try:
        yield url
    finally:
        stop(server)


def stop(server: subprocess.Popen) -> None:
    """Ends it as a person would; it finishes what it can."""
    server.terminate()
    try:
        server.wait(90)
    finally:
        server.kill()


async def drive(parts, *args) -> None:
    """Runs the parts one after the other, each with a bound on its time, and says how long each took."""
    for part in parts:
        began = time.monotonic()
        await asyncio.wait_for(part(*args), 300)
        print(f"{part.__name__}: {time.monotonic() - began:.1f} s", flush=True)
