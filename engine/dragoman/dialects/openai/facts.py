"""The facts that Chat Completions and Responses share, as APIs of one vendor."""

from __future__ import annotations

from typing import Final

from dragoman.dialects.facts import RateLimitHeaders

MAKER: Final = "OpenAI"
VENDOR: Final = "openai"
MODEL_NAMES: Final = ("gpt*", "chatgpt*", "codex*", "o[0-9]*", "ft:*")
BASE_URL: Final = "https://api.openai.com/v1"
KEY_VARIABLE: Final = "OPENAI_API_KEY"
KEY_HEADERS: Final = ("openai-organization", "openai-project")
REPLY_HEADERS: Final = (
    "x-request-id",
    "openai-processing-ms",
    "openai-version",
    "openai-organization",
    "openai-project",
)
LIMITS: Final = RateLimitHeaders("x-ratelimit-{fact}-{what}", "duration")
