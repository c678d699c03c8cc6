"""The error of a command that cannot be run as it was given."""

from __future__ import annotations

from dragoman_server.config.config_error import ConfigError


class CommandError(ConfigError):
    """An option, a name or a file of a command is wrong. `dragoman` prints it after the command's name, and exits 2.

    The path of a problem is the option or the name, without which the message stands for itself.
    """
