from __future__ import annotations

import pytest

from dragoman.dialects.generate.images import read_image


def test_a_picture_in_the_url_safe_alphabet() -> None:
    image = read_image({"mimeType": "image/png", "data": "iVBO-_8"})
    assert image == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO+/8="}}


@pytest.mark.parametrize(
    "data",
    [None, [], {"mimeType": "audio/wav", "data": "AA"}, {"mimeType": "image/png"}, {"mimeType": 1, "data": "AA"}],
)
def test_no_picture(data: object) -> None:
    assert read_image(data) is None
