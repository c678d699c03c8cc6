"""The codec of the dialect."""

from __future__ import annotations

from dragoman.dialects.chat.codec import CODEC
from dragoman.dialects.chat.request.read import FIELDS
from support.codec_facts import check_codec


def test_the_codec_is_of_its_dialect() -> None:
    check_codec(CODEC, FIELDS)
