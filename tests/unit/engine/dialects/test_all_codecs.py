"""The codecs, and what is imported for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.dialects.codec import Codec

IMPORTED = """
import sys
from dragoman import direction
def loaded():
    return [name for name in ("chat", "messages", "responses") if f"dragoman.dialects.{name}.codec" in sys.modules]
before = loaded()
direction("messages", "chat")
print(before, loaded())
"""


def test_each_dialect_has_a_codec() -> None:
    assert list(CODECS) == list(Dialect)
    for dialect, codec in CODECS.items():
        assert isinstance(codec, Codec)
        assert codec.dialect is dialect
    with pytest.raises(KeyError):
        CODECS["gopher"]  # type: ignore[index]


def test_only_the_dialects_that_are_used_are_imported() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert done.stdout == "[] ['chat', 'messages']\n"
