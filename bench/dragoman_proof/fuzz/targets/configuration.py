"""Configuration files: a valid one, or one error with a path and a text for each problem."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from datetime import date, datetime, time
from random import Random
from typing import Any

from dragoman_proof.fuzz import seeds
from dragoman_proof.fuzz.mutate import Trees
from dragoman_proof.fuzz.target import CHECKOUT, Target, require
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config

_KEY = "sk-proj-4mQ0bYzW1eVtL8"
_ENVIRONMENT = {"OPENAI_API_KEY": _KEY, "ANTHROPIC_API_KEY": _KEY, "EMPTY": "", "ODD": "\u00e9 \n"}
_EXAMPLE = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_WORDS = (
    "file:/nowhere",
    "${OPENAI_API_KEY}",
    "${EMPTY:-x}",
    "${ODD}",
    "http://x",
    "https://[::1",
    "unix:///a",
    "*",
    "1d",
)


def target(_: str) -> Target:
    """Return the target."""
    examples = [tomllib.loads(text) for text in _examples()]
    words = [*seeds.words_of(examples), *_WORDS]
    trees = Trees(words)

    def mutate(data: bytes, other: bytes, random: Random) -> bytes | None:
        try:
            value, given = tomllib.loads(data.decode()), tomllib.loads(other.decode())
        except (ValueError, RecursionError):
            return None
        changed = trees.changed(value, given, random)
        if random.randrange(3) == 0:
            changed = {**given, **changed}
        return "\n".join(_written(changed)).encode("utf-8", "replace")

    inputs = ["\n".join(_written(example)).encode() for example in examples]
    return Target(_check, inputs, [word.encode() for word in words], mutate, longest=4096)


def _check(data: bytes) -> None:
    try:
        values = tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return  # `load_config` reports it
    try:
        config = parse_config(values, _ENVIRONMENT, "/nowhere")
    except ConfigError as error:
        require(bool(error.problems), "an error has a problem")
        require(all(message for _, message in error.problems), "a problem has a text")
        require(_KEY not in str(error), "no error shows a key")
        repr(error)
        return
    repr(config)


def _examples() -> Iterator[str]:
    for page in sorted((CHECKOUT / "docs").rglob("*.md")):
        for text in _EXAMPLE.findall(page.read_text("utf-8")):
            if len(text) < 3000:
                try:
                    tomllib.loads(text)
                except ValueError:
                    continue
                yield text


def _written(values: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a TOML file; values that TOML lacks are left out."""
    for key, value in values.items():
        if value is not None:
            yield f"{_key(key)} = {_value(value)}"


def _key(key: str) -> str:
    return key if _BARE.match(key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(_value(each) for each in value if each is not None)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items() if each is not None)}}}"
    return repr(value).replace("e+", "e")
