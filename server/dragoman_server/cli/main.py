"""The entry point of the command line: `dragoman COMMAND`."""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Sequence

from dragoman import DragomanError
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.commands import command_line
from dragoman_server.cli.config_source import ways_to_configure
from dragoman_server.cli.options import log_level
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import NothingConfigured
from dragoman_server.observability.logs import configure, print_line


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Return the exit status: 0 success, 1 failure, 2 wrong usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["bench"]:
        return _bench(words[1:])
    args = command_line().parse_args(words)
    try:
        handler = args.log_handler(args) if "log_handler" in args else None
        configure(log_level(args), getattr(args, "log_format", "text"), handler=handler, stamped="stamped" in args)
        status: int = args.run(args)
    except NothingConfigured:
        print_line(ways_to_configure(args, words[0]), logging.ERROR)
        return 2
    except CommandError as error:
        print_line(f"dragoman {words[0]}: {error}", logging.ERROR)
        return 2
    except ConfigError as error:
        print_line(f"wrong configuration{f' in {error.file}' if error.file else ''}:\n{error}", logging.ERROR)
        return 2
    except DragomanError as error:
        print_line(f"dragoman: {error}", logging.ERROR)
        return 1
    except OSError as error:
        print_line(f"dragoman: {_reason(error)}", logging.ERROR)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def _reason(error: OSError) -> str:
    """Return the error's message without its number, with advice where there is some."""
    if error.filename is not None:
        return f"{error.filename}: cannot be read: {error.strerror}"
    advice = "; use --port to select another one" if error.errno == errno.EADDRINUSE else ""
    return f"{error.strerror or error}{advice}"


def _bench(words: Sequence[str]) -> int:
    """Run dragoman_bench; its short run unless `--full` is given."""
    try:
        from dragoman_bench.cli import main as bench
    except ImportError as error:
        print(f"dragoman bench cannot run here, it needs Linux: {error}", file=sys.stderr)
        return 2
    if words[:1] == ["peers"] or "--quick" in words:
        return bench(words)
    return bench([word for word in words if word != "--full"] if "--full" in words else ["--quick", *words])


if __name__ == "__main__":
    sys.exit(main())
