"""The first steps of a new user, with an installed wheel and the vendors' SDKs. `check.py` runs it.

    python smoke.py FOLDER

The environment has nothing else. FOLDER is empty, and not the checkout. A line is printed per step; the first that
fails ends the program with status 1.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SECONDS = 120.0
_LISTENS = re.compile(r"dragoman listens on (http://\S+)")


def run(folder: Path, *arguments: str) -> str:
    """Run a command of the installed package, and return what it prints."""
    command = [str(Path(sys.executable).with_name("dragoman")), *arguments]
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
    )
    if done.returncode != 0:
        raise SystemExit(f"dragoman {' '.join(arguments)} ended with status {done.returncode}:\n{done.stderr}")
    return done.stdout + done.stderr


def ask(url: str) -> None:
    """Stream a reply of the simulated upstream through each API, with the vendors' SDKs."""
    import anthropic
    import openai

    question = "Are you there?"
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="any", timeout=SECONDS)
    chunks = client.chat.completions.create(
        model="messages/sim-text", messages=[{"role": "user", "content": question}], stream=True
    )
    chat = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    with client.responses.stream(model="chat/sim-text", input=question) as events:
        responses = events.get_final_response().output_text
    messages_client = anthropic.Anthropic(base_url=url, api_key="any", timeout=SECONDS)
    with messages_client.messages.stream(
        model="responses/sim-text", max_tokens=100, messages=[{"role": "user", "content": question}]
    ) as stream:
        messages = stream.get_final_text()
    for name, text in (("chat", chat), ("responses", responses), ("messages", messages)):
        if question not in text:
            raise SystemExit(f"the reply by {name} is {text!r}")
        print(f"{name}: {text}")


def serve_and_ask(folder: Path) -> None:
    """Start the gateway with its simulated upstream, and ask it."""
    command = [str(Path(sys.executable).with_name("dragoman")), "serve", "--simulate", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = next(filter(None, map(_LISTENS.search, process.stderr)), None)
            if found is None:
                raise SystemExit("dragoman serve ended without listening")
            ask(found[1])
        finally:
            process.terminate()
            rest = process.stderr.read()
    if process.returncode != 0:
        raise SystemExit(f"dragoman serve ended with status {process.returncode}:\n{rest}")


def look() -> None:
    """The engine imports no client of HTTP and no event loop, and the wheel has the files of the console."""
    import dragoman  # noqa: F401

    if found := {"aiohttp", "uvloop"} & sys.modules.keys():
        raise SystemExit(f"import dragoman imports {', '.join(sorted(found))}")
    from dragoman_server.endpoints.console.static_files import FOLDER, PAGE

    if not (FOLDER / PAGE).is_file():
        raise SystemExit(f"the wheel lacks {PAGE}")


def main(folder: Path) -> None:
    """Run all steps."""
    look()
    print(run(folder, "--version").strip())
    demo = run(folder, "demo", "--once", "--port", "0", "--pace", "0")
    if "9/9" not in demo:
        raise SystemExit(f"the demo is not complete:\n{demo[-2000:]}")
    print("demo: complete")
    run(folder, "init")
    print(f"check: {run(folder, 'check', 'dragoman.toml').splitlines()[-1]}")
    serve_and_ask(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
