"""Claude Code, headless, in the shapes of request that the model's name chooses.

The names of the vendor's models only choose the shape: the gateway sends them all to the same simulated model.
"""

from __future__ import annotations

import json
from functools import partial

from real_clients.contract import Client, Finished, Outcome, Session
from real_clients.errand import (
    COMMAND,
    CUT_MODEL,
    FULL_MODEL,
    MODEL,
    NOTED,
    NOTES_TOOL,
    PICTURE,
    SEEN,
    TEXT,
    WRITTEN,
    Errand,
    call,
)

_PACKAGES = ("@anthropic-ai/claude-code@2.1.332",)
_SHELL = call("Bash", {"command": COMMAND, "description": "Read the word"})
_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
}


def _tools(model: str, session: Session) -> Outcome:
    """`Write` and `Bash` side by side, then `Bash` once more."""
    errand = Errand.in_folder(session.work)
    write = call("Write", {"file_path": str(session.work / WRITTEN), "content": TEXT})
    other = call("Bash", {"command": "echo 東京", "description": "Say a name"})
    prompt = errand.prompt((write, other), _SHELL)
    finished = _claude(session, model, "-p", prompt, "--allowedTools", "Bash,Write")
    return errand.judge(finished, _result(finished), WRITTEN)


def _more(session: Session) -> Outcome:
    """A picture is read, a deferred tool of an MCP server found and used; then a second prompt in the same session."""
    errand = Errand.in_folder(session.work)
    command, *words = errand.notes_server()
    config = {"mcpServers": {"notes": {"command": command, "args": words}}}
    tool = f"mcp__notes__{NOTES_TOOL}"
    allowed = ("--mcp-config", json.dumps(config), "--strict-mcp-config", "--allowedTools", f"Bash,Read,{tool}")
    picture = call("Read", {"file_path": str(session.work / PICTURE)})
    search = call("ToolSearch", {"query": f"select:{tool}", "max_results": 5})
    first = _claude(session, MODEL, "-p", errand.prompt(picture, search, call(tool, {"text": TEXT})), *allowed)
    if errand.note not in _result(first):
        return errand.judge(first, _result(first), words=(errand.note, SEEN))
    second = _claude(session, MODEL, "-c", "-p", errand.prompt(_SHELL), *allowed)
    return errand.judge(second, _result(second), NOTED, words=(errand.word, SEEN))


def _overflow(session: Session) -> Outcome:
    errand = Errand.in_folder(session.work)
    first = _claude(session, MODEL, "-p", errand.prompt(_SHELL), "--allowedTools", "Bash")
    second = _claude(session, FULL_MODEL, "-c", "-p", "And now?")
    return errand.judge_end(errand.judge(first, _result(first)), second, "Prompt is too long")


def _claude(session: Session, model: str, *words: str) -> Finished:
    # The package's own launcher is made by an install script; the program itself is in the platform's package.
    program = next((session.prefix / "node_modules/@anthropic-ai").glob("claude-code-*/claude"))
    return session.run(
        [program, "--model", model, "--output-format", "json", *words],
        {"ANTHROPIC_BASE_URL": session.base_url, "CLAUDE_CONFIG_DIR": str(session.home / ".claude"), **_QUIET},
    )


def _result(finished: Finished) -> str:
    try:
        return str(json.loads(finished.stdout)["result"])
    except (ValueError, KeyError, TypeError):
        return finished.stdout


CLIENTS = [
    Client("Claude Code", "messages", "agent", "node", _PACKAGES, partial(_tools, MODEL)),
    Client("Claude Code: a stream is cut", "messages", "agent", "node", _PACKAGES, partial(_tools, CUT_MODEL)),
    Client("Claude Code: the context is full", "messages", "agent", "node", _PACKAGES, _overflow),
    Client("Claude Code: picture, MCP tool, second prompt", "messages", "agent", "node", _PACKAGES, _more),
    *(
        Client(f"Claude Code as `{model}`", "messages", "agent", "node", _PACKAGES, partial(_tools, model))
        for model in ("claude-opus-5-5", "claude-sonnet-5", "claude-haiku-4-5")
    ),
]
