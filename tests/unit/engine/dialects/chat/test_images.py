"""Pictures of Chat replies."""

from __future__ import annotations

from dragoman.dialects.chat.images import is_image, read_images
from dragoman.losses import LossCode, Losses

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_pictures_are_read_and_anything_else_is_a_row() -> None:
    losses = Losses()
    assert read_images([{**IMAGE, "index": 0}, {"type": "image_url"}, None], ("m",), losses) == [IMAGE]
    assert losses.counts == {LossCode.UNKNOWN_EVENT: 2}
    assert (is_image(IMAGE), is_image({"type": "text"}), is_image(None)) == (True, False, False)


def test_unknown_keys_of_a_picture_are_rows() -> None:
    losses = Losses()
    read_images([{**IMAGE, "zz": 1, "image_url": {**IMAGE["image_url"], "yy": 1}}], ("m",), losses)  # type: ignore[dict-item]
    assert [row.path for row in losses.rows] == ["m.images.zz", "m.images.image_url.yy"]
