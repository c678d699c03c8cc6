"""Signatures of reasoning: where Gemini puts them, and how they are kept for the next request.

A signature belongs to the part that it came in, and has to come back there; Gemini 3 rejects a request in which the
first call of a step has none (`ai.google.dev/gemini-api/docs/thought-signatures`). Reasoning of this dialect is
therefore a `block`: the signature, the kind of its part, and the text of the reasoning before it. Clients keep it in an
envelope.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json

SKIP: Final = "skip_thought_signature_validator"
"""The value that Google documents for calls without a signature of the model."""
UNSIGNED: Final = "the value was sent that makes Google skip the check of a missing signature"
KEY: Final = "thoughtSignature"
TYPE: Final = "part"
"""The type of a block."""
END: Final = "end"
"""The kind of an empty text at the end of a reply."""
REASONING: Final = "thought"
"""The kind of reasoning that is signed itself."""
KINDS: Final = ("functionCall", "text", "inlineData")
"""The other kinds of parts that a signature is sent back in."""


def signature_of(part: Json) -> str:
    """Return the signature of a part of a reply, or an empty text."""
    signature = part.get(KEY)
    return signature if type(signature) is str else ""


def block_of(kind: str, text: str, signature: str) -> Json:
    """Return the block of a signature. `kind` is the kind of its part, empty for reasoning without a signature."""
    return {"type": TYPE, "on": kind, "thought": text, KEY: signature}


def read_block(block: Json) -> tuple[str, str, str]:
    """Return kind, text and signature of a block. Clients can forge one: what does not fit is empty."""
    kind, text, signature = (_text(block.get(key)) for key in ("on", "thought", KEY))
    return (kind if signature and kind in (*KINDS, END, REASONING) else ""), text, signature


def _text(value: Any) -> str:
    return value if type(value) is str else ""
