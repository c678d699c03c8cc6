"""Pictures of Chat replies."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.chat.images import is_image, read_images
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext

IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_pictures_are_read_and_anything_else_is_a_row() -> None:
    context = ReplyContext("m")
    assert read_images([{**IMAGE, "index": 0}, {"type": "image_url"}, None], ("m",), context) == [IMAGE]
    assert context.losses.counts == {LossCode.UNKNOWN_EVENT: 2}
    assert (is_image(IMAGE), is_image({"type": "text"}), is_image(None)) == (True, False, False)


@pytest.mark.parametrize("same", [False, True])
def test_unknown_keys_of_a_picture_are_rows_unless_they_are_passed_on(same: bool) -> None:
    context = ReplyContext("m", same_dialect=same)
    picture = {**IMAGE["image_url"], "yy": 1}
    [read] = read_images([{**IMAGE, "zz": 1, "image_url": picture}], ("m",), context)
    assert read == {"type": "image_url", "image_url": picture}
    rows = ["m.images.zz"] if same else ["m.images.zz", "m.images.image_url.yy"]
    assert [row.path for row in context.losses.rows] == rows
