"""Secrets in files: the value `file:/run/secrets/NAME` of a key in the configuration stands for that file's text."""

from __future__ import annotations

import os
import stat

PREFIX = "file:"
"""Beginning of a reference to a file."""
SIZE_MAX = 64 * 1024
"""Largest file of a secret, in bytes."""


class SecretFileError(ValueError):
    """A file of a secret cannot be used. The text has no part of the file's content."""


def read_secret(path: str) -> str:
    """Return the text of a file without its last line break.

    Raises SecretFileError for a relative path, and for a file that is absent, empty, too large or not text.
    """
    if not os.path.isabs(path):
        raise SecretFileError("expected file: and an absolute path, such as file:/run/secrets/NAME")
    if "\0" in path:
        raise SecretFileError("the path has a null character")
    try:
        # O_NONBLOCK: a named pipe without a writer would block the start, and each reload.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            data = os.read(descriptor, SIZE_MAX + 1) if regular else b""
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SecretFileError(f"the file cannot be read: {error.strerror}") from None
    if not regular:
        raise SecretFileError("expected a regular file")
    if len(data) > SIZE_MAX:
        raise SecretFileError(f"the file has more than {SIZE_MAX} bytes")
    try:
        text = data.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise SecretFileError("the file is not UTF-8 text") from None
    if not text:
        raise SecretFileError("the file is empty")
    return text
