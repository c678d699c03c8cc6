"""The lines of a gateway that stops: how many requests are open and how long they have, and how it ended."""

from __future__ import annotations

from dragoman_server.observability.logs import print_line


def print_leaving(seconds: int) -> None:
    """Print that the gateway serves on for `shutdown_delay` seconds."""
    print_line(f"dragoman stops in {seconds} s, and is not ready meanwhile; a second Ctrl-C ends the wait")


def print_stopping(count: int, seconds: float) -> None:
    """Print that `count` open requests have so many seconds to end."""
    if not count:
        print_line("dragoman stops")
        return
    open_requests, them = ("1 request is open", "it") if count == 1 else (f"{count} requests are open", "them")
    rest = f"waiting up to {seconds:g} s; a second Ctrl-C ends {them}" if seconds else "and not waited for"
    print_line(f"dragoman stops: {open_requests}, {rest}")


def print_stopped(ended: int, *, hurried: bool) -> None:
    """Print that the gateway has stopped, and had to end so many requests.

    `hurried` is True after a second signal.
    """
    if not ended:
        print_line("dragoman stopped")
        return
    by = "a second signal" if hurried else "the deadline"
    print_line(f"dragoman stopped: {ended} request{'s' * (ended > 1)} ended by {by}")
