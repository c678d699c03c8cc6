"""Pictures in Chat replies: `images` of a message or delta, as OpenRouter and LiteLLM send them (mapping §9.1).

Each is a part `{"type": "image_url", "image_url": {"url": "data:…"}}` (openrouter.ai/docs, image generation).
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.shared.json_fields import record_unknown
from dragoman.errors import Path
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext

_PART: Final = frozenset(("type", "image_url", "index"))
_IMAGE_URL: Final = frozenset(("url", "detail"))


def read_images(images: Any, at: Path, context: ReplyContext) -> list[Json]:
    """Return the pictures. `at` is the path of the message or delta. Anything else among them is a loss."""
    found, losses = [], context.losses
    for image in images if type(images) is list else (images,):
        source = image.get("image_url") if type(image) is dict else None
        if type(source) is not dict or type(source.get("url")) is not str:
            losses.add(LossCode.UNKNOWN_EVENT, (*at, "images"), "an image without a URL was left out")
            continue
        record_unknown(image, _PART, (*at, "images"), losses)
        if not context.same_dialect:
            record_unknown(source, _IMAGE_URL, (*at, "images", "image_url"), losses)
        found.append({"type": "image_url", "image_url": source})
    return found


def is_image(payload: Any) -> bool:
    """True for the payload of an opaque block that is a picture."""
    return type(payload) is dict and payload.get("type") == "image_url"
