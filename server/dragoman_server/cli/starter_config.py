"""`dragoman init`: a commented configuration to start from."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dragoman_server.cli.config_source import DEFAULT_FILE

STARTER = """\
# The configuration of a Dragoman gateway. All keys: docs/reference/configuration.md
#   dragoman check FILE             is it right, and what does it mean
#   dragoman check --connect FILE   do the upstreams answer
#   dragoman serve FILE

[server]
host = "127.0.0.1"
port = 8080
# Keys that clients must present, as x-api-key or Authorization: Bearer. Needed as soon as others reach the port.
# keys = ["${GATEWAY_KEY}"]

# --- Upstreams: one table for each. ${NAME} is read from the environment. ------------------------------------------

# A server of your own that speaks Chat Completions: Ollama, vLLM, llama.cpp, LM Studio, ...
[providers.local]
dialect = "chat"
base_url = "http://127.0.0.1:11434/v1"
# api_key = "${LOCAL_KEY}"

# [providers.anthropic]
# dialect = "messages"
# base_url = "https://api.anthropic.com"
# api_key = "${ANTHROPIC_API_KEY}"

# OpenAI's Responses; dialect = "chat" is its Chat Completions.
# [providers.openai]
# dialect = "responses"
# base_url = "https://api.openai.com/v1"
# api_key = "${OPENAI_API_KEY}"

# --- Routes: which upstream answers for a model's name. The first that fits wins; exact names go first. ------------
# Each begins with [[routes]], in two brackets. PROVIDER/MODEL needs no route: local/qwen3:32b.

# [[routes]]
# model = "claude-*"
# provider = "anthropic"

# [[routes]]
# model = "gpt-*"
# provider = "openai"

# Any other name goes to the local server, as it is; upstream_model = "qwen3:32b" would send one name for all of them.
[[routes]]
model = "*"
provider = "local"

# --- What a translation does where there is a choice. -------------------------------------------------------------

# [knobs]
# A field that the upstream cannot carry: "record" sends the rest and lists the loss, "reject" is a 400.
# on_loss = "record"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "file",
        nargs="?",
        default=DEFAULT_FILE,
        metavar="FILE",
        help=f"file to write (default {DEFAULT_FILE}), - for standard output",
    )
    parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")


def main(args: argparse.Namespace) -> int:
    """Write the starter. Returns 1 if the file exists. Raises OSError."""
    if args.file == "-":
        sys.stdout.write(STARTER)
        return 0
    path = Path(args.file)
    try:
        with path.open("w" if args.force else "x", encoding="utf-8") as file:
            file.write(STARTER)
    except FileExistsError:
        print(f"dragoman: {path} exists; --force overwrites it, - writes to standard output", file=sys.stderr)
        return 1
    print(f"{path} is written. Edit it, then: dragoman check {path}; dragoman serve {path}", file=sys.stderr)
    return 0
