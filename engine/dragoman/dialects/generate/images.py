"""Pictures in replies: `inlineData` of an image type, as the canonical opaque block `IMAGE`."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.shared.inline_data import plain_base64


def read_image(data: Any) -> Json | None:
    """Return the payload of an opaque block for an `inlineData`, or None if it is no picture.

    The payload is a part of Chat's type `image_url` (`canonical.events.IMAGE`).
    """
    if type(data) is not dict:
        return None
    kind, encoded = data.get("mimeType"), data.get("data")
    if type(kind) is not str or not kind.startswith("image/") or type(encoded) is not str or not encoded:
        return None
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{plain_base64(encoded)}"}}
