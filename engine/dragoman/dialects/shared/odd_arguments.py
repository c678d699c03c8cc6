"""Arguments of calls that servers write in another form than as the text of one JSON object, with one possible meaning.

- an empty object before the real one, `{}{"a":1}`: Bedrock and Gemini behind compatible endpoints
  (openai/openai-agents-js#712, microsoft/autogen#7549)
- a JSON text of the JSON text, `"{\\"a\\":1}"`: models whose arguments a server encodes again (vllm-project/vllm#54964)
- `null` for a call without arguments (1jehuang/jcode#225)
- fragments of which each repeats those before, and a whole object that follows its own fragments
"""

from __future__ import annotations

import re

from dragoman.dialects.shared.json_fields import parse_object
from dragoman.wire.json_codec import loads

EMPTY_FIRST = "an empty object came before the arguments"
"""The note of the row where such an object was left out."""
_SEVERAL = re.compile(r"\}\s*\{")
_SENT_AGAIN = "arguments were sent again"


def read_odd(text: str) -> tuple[str, str] | None:
    """Return the text of the object that odd arguments mean, and the note of its row; None if they mean no object.

    `text` is all of the arguments, which are not an object themselves.
    """
    bare = text.strip()
    if bare == "null":
        return "{}", "arguments were null"
    if bare.startswith("{}"):
        rest = bare[2:].lstrip()
        return (rest, EMPTY_FIRST) if parse_object(rest) is not None else None
    if bare.startswith('"'):
        try:
            inner = loads(bare)
        except ValueError:
            return None
        if type(inner) is str and parse_object(inner) is not None:
            return inner, "arguments were encoded twice"
    half = bare[: len(bare) // 2].rstrip()
    return read_repeated(half, [bare[len(half) :].lstrip()]) if half.endswith("}") else None


def read_repeated(passed: str, pieces: list[str]) -> tuple[str, str] | None:
    """Return the text of the object that fragments mean which follow `passed` and repeat it, and the note of its row.

    None unless one object is the only meaning: each fragment begins with the one before, and the last is the object; or
    `passed` is an object, and the fragments are the same one. The text begins with `passed`.
    """
    last, before = pieces[-1], passed
    for piece in pieces:
        if not piece.startswith(before):
            break
        before = piece
    else:
        if parse_object(last) is not None:
            return last, _SENT_AGAIN
    whole = parse_object(passed)
    if whole is not None and parse_object("".join(pieces)) == whole:
        return passed, _SENT_AGAIN
    return None


def form_of(first: str) -> str:
    """Return the form that the first fragment of streamed arguments may have, "" for that of an object.

    All are kept until it is certain which of them it is, `text` also for several objects.
    """
    bare = first.strip()
    if bare == "{}":
        return "empty"
    if "}" in bare[:-1] and _SEVERAL.search(bare) is not None:
        return "text"
    return {'"': "text", "n": "null"}.get(bare[:1], "")
