"""Turns of one thread of Codex's app server. Prints the last text of each, one JSON string a line.

Each argument is a turn: `task NAME PROMPT` starts it with an output of a tool that the model did not call, as a
scheduled task does, `say PROMPT` with a message of the user.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]


class AppServer:
    """The process, and a thread in it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["codex", "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._id = 0
        client = {"name": "dragoman-tests", "title": "Tests", "version": "1"}
        self._ask("initialize", clientInfo=client, capabilities={"experimentalApi": True})
        self._write({"method": "initialized"})
        started = self._ask("thread/start", approvalPolicy="never", sandbox="danger-full-access")
        self._thread = started["thread"]["id"]

    def turn(self, **params: Any) -> str:
        """Run one turn to its end. Returns the last text of the agent."""
        stated: list[str] = []
        self._ask("turn/start", threadId=self._thread, **params)
        while True:
            message = self._read(lambda message: message.get("method") in ("item/completed", "turn/completed"))
            if message["method"] == "turn/completed":
                turn = message["params"]["turn"]
                if turn["status"] != "completed":
                    raise SystemExit(f"the turn ended as {turn['status']}: {turn['error']}")
                return stated[-1] if stated else ""
            item = message["params"]["item"]
            if item["type"] == "agentMessage":
                stated.append(item["text"])

    def _ask(self, method: str, **params: Any) -> Any:
        self._id += 1
        asked = self._id
        self._write({"id": asked, "method": method, "params": params})
        answer = self._read(lambda message: message.get("id") == asked)
        if "error" in answer:
            raise SystemExit(f"{method}: {answer['error']}")
        return answer["result"]

    def _write(self, message: Message) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _read(self, wanted: Callable[[Message], bool]) -> Message:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message: Message = json.loads(line)
            if wanted(message):
                return message
        raise SystemExit("the app server has ended")


def main() -> None:
    """Play the turns."""
    server = AppServer()
    words = sys.argv[1:]
    while words:
        if words.pop(0) == "task":
            text = server.turn(
                input=[], toolOutput={"name": words.pop(0), "namespace": "tasks", "output": words.pop(0)}
            )
        else:
            text = server.turn(input=[{"type": "text", "text": words.pop(0)}])
        print(json.dumps(text), flush=True)


if __name__ == "__main__":
    main()
