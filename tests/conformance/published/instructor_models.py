# mypy: ignore-errors
# It runs with the packages of its own environment, not the project's.
#
# /// script
# requires-python = ">=3.11"
# dependencies = ["anthropic==2.14.0", "instructor==1.17.0"]
#
# [tool.uv]
# exclude-newer = "2026-11-26T00:00:00Z"
# ///
"""instructor, which makes pydantic models of replies, before a gateway.

`python instructor_models.py CLIENT URL` asks in each mode that instructor has for the dialect CLIENT: whole, as a
stream of partial models, and for a list of models. URL is the gateway's without `/v1`. Each is a JSON line: its name,
its outcome, and the reason of a failure.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import instructor
from anthropic import Anthropic
from instructor import Mode
from openai import OpenAI
from pydantic import BaseModel

MODES = {
    "chat": (Mode.TOOLS, Mode.TOOLS_STRICT, Mode.JSON, Mode.JSON_SCHEMA, Mode.MD_JSON),
    "messages": (Mode.ANTHROPIC_TOOLS, Mode.ANTHROPIC_JSON, Mode.ANTHROPIC_REASONING_TOOLS),
    "responses": (Mode.RESPONSES_TOOLS,),
}
ASKED = [{"role": "user", "content": "Extract: 'Ada Lovelace' is 36 years old. Answer as a JSON object."}]


class Person(BaseModel):
    """A person of whom the prompt reports."""

    name: str
    age: int


def made(client: str, url: str, mode: Mode) -> Any:
    """The client of a dialect in one mode."""
    if client == "messages":
        return instructor.from_anthropic(Anthropic(base_url=url, api_key="key", max_retries=0), mode=mode)
    return instructor.from_openai(OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0), mode=mode)


def ways(client: str, url: str, mode: Mode) -> Iterable[tuple[str, Callable[[], list[Person]]]]:
    """Each way to ask, by its name."""
    asked: dict[str, Any] = {"messages": ASKED, "max_retries": 0, "model": "gpt-5.5"}
    if client == "messages":
        asked |= {"model": "claude-sonnet-5", "max_tokens": 2000}
    made_of = made(client, url, mode)
    yield "whole", lambda: [made_of.create(response_model=Person, **asked)]
    yield "partial", lambda: [*made_of.create_partial(response_model=Person, **asked)][-1:]
    if "tool" in mode.value:
        yield "list", lambda: [*made_of.create_iterable(response_model=Person, **asked)]


def main(client: str, url: str) -> int:
    """Returns the exit status."""
    failed = 0
    for mode in MODES[client]:
        for way, ask in ways(client, url, mode):
            why = ""
            try:
                people = ask()
                if not people or any((person.name, person.age) != ("Ada Lovelace", 36) for person in people):
                    why = f"the models are {people!r}"
            except Exception as error:
                why = f"{type(error).__name__}: {error}"[-600:]
            failed += bool(why)
            print(json.dumps({"test": f"{mode.value}-{way}", "outcome": "failed" if why else "passed", "why": why}))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
