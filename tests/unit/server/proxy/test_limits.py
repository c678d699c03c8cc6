"""The estimate of a request that passes through unread, from which its claim is made."""

from __future__ import annotations

import base64
import json
import random

import pytest

from dragoman_server.proxy.limits import estimate_by_size
from support.growth import growth

WORDS = "The quick brown fox jumps over the lazy dog and reads a book about streams. " * 2000
IMAGE = base64.b64encode(random.Random(7).randbytes(1_000_000)).decode()


def body(*parts: object) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": list(parts)}]}).encode()


def test_text_is_four_bytes_to_a_token() -> None:
    assert estimate_by_size(body("Hi")) == len(body("Hi")) // 4
    assert estimate_by_size(body(WORDS)) == pytest.approx(len(WORDS) / 4, rel=0.02)


def test_inline_data_counts_little() -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}
    assert estimate_by_size(body(image)) < 25_000
    # Windows find shares of a body, so an image hides a text that is much shorter, but not a long one.
    assert estimate_by_size(body(image, WORDS * 10)) == pytest.approx(len(WORDS * 10) / 4, rel=0.1)


@pytest.mark.turns
@pytest.mark.parametrize("unit", [b"a" * 4095 + b" ", b'"', b"a", b" a", b"=" * 511 + b"!"])
def test_no_content_makes_it_slow(unit: bytes) -> None:
    """A body of sixteen times the size is read in as many windows."""
    large = unit * (32 * 1024 * 1024 // len(unit))
    few = large[: len(large) // 16]
    assert growth(lambda body: estimate_by_size(body), few, large) < 8
