"""Words to systemd, for units of `Type=notify` and `Type=notify-reload`."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress

VARIABLE = "NOTIFY_SOCKET"


def notify(state: str) -> None:
    """Say `READY=1`, `RELOADING=1` or `STOPPING=1`; nothing happens where nobody asked for it."""
    address = os.environ.get(VARIABLE)
    if not address:
        return
    # A service manager that is gone is no reason to stop serving.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        text = f"{state}\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"
        sock.sendto(text.encode(), "\0" + address[1:] if address[0] == "@" else address)
