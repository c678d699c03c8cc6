"""Notifications to systemd (sd_notify), for units of `Type=notify` and `Type=notify-reload`."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress

VARIABLE = "NOTIFY_SOCKET"


def notify(state: str) -> None:
    """Send `READY=1`, `RELOADING=1` or `STOPPING=1`. Does nothing if NOTIFY_SOCKET is not set."""
    address = os.environ.get(VARIABLE)
    if not address:
        return
    # The gateway goes on serving if the service manager is unreachable.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        text = f"{state}\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"
        sock.sendto(text.encode(), "\0" + address[1:] if address[0] == "@" else address)
