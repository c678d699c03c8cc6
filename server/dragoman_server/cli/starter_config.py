"""`dragoman init`: writes a commented configuration to start from."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dragoman_server.cli.config_source import DEFAULT_FILE
from dragoman_server.cli.named_files import write_output
from dragoman_server.config.json_schema import DIRECTIVE, SCHEMA_FILE, schema_text

STARTER = (
    f"""\
{DIRECTIVE}
"""
    + """\
# The configuration of a Dragoman gateway. All keys: docs/reference/configuration.md
#   dragoman check FILE             validates and describes it
#   dragoman check --connect FILE   also sends each upstream a request
#   dragoman serve FILE

[server]
host = "127.0.0.1"
port = 8080
# Keys that clients must present, as x-api-key or Authorization: Bearer. Needed if others can reach the port.
# keys = ["${GATEWAY_KEY}"]
# Keys with a name, models, limits and budgets: `dragoman keys add NAME --toml` prints a table for the end of this file.

# --- Upstreams: one table for each. ${NAME} is read from the environment, file:PATH from a file. --------------------

# Your own server with the Chat Completions API: Ollama, vLLM, llama.cpp, LM Studio, ...
[providers.local]
dialect = "chat"
base_url = "http://127.0.0.1:11434/v1"
# api_key = "${LOCAL_KEY}"

# [providers.anthropic]
# dialect = "messages"
# base_url = "https://api.anthropic.com"
# api_key = "${ANTHROPIC_API_KEY}"

# OpenAI by its Responses API; dialect = "chat" selects its Chat Completions API.
# [providers.openai]
# dialect = "responses"
# base_url = "https://api.openai.com/v1"
# api_key = "${OPENAI_API_KEY}"

# Gemini's own API; dialect = "chat" and a base_url with /v1beta/openai select the compatible one.
# [providers.gemini]
# dialect = "generate"
# base_url = "https://generativelanguage.googleapis.com"
# api_key = "${GEMINI_API_KEY}"

# --- Routes: the upstream for a model name. Exact names take precedence, then the first match. ---------------------
# Each begins with [[routes]] (two brackets). PROVIDER/MODEL needs no route: local/qwen3:32b.

# [[routes]]
# model = "claude-*"
# provider = "anthropic"

# [[routes]]
# model = "gpt-*"
# provider = "openai"

# A fallback: the second provider gets a request if the first one fails before its reply has begun.
# [[routes]]
# model = "best"
# upstream_model = "claude-opus-5"
# providers = ["anthropic", { provider = "openai", upstream_model = "gpt-5" }]

# All other names go to the local server unchanged; upstream_model = "qwen3:32b" would replace them by one name.
[[routes]]
model = "*"
provider = "local"

# --- Knobs: choices for the translation. ---------------------------------------------------------------------------

# [knobs]
# A field that the upstream does not have: "record" drops it and records the loss, "reject" returns a 400.
# on_loss = "record"
"""
)


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
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Write the starter configuration, and its schema next to it. Return 1 if the file exists. Raises OSError."""
    path = args.file
    if not write_output(STARTER, path, force=args.force):
        return 1
    if path != "-":
        Path(path).with_name(SCHEMA_FILE).write_text(schema_text(), "utf-8")
        print(f"wrote {path}. Edit it, then: dragoman check {path}; dragoman serve {path}", file=sys.stderr)
    return 0
