"""Short requests of Messages and Chat clients, a whole Chat reply, and the directions between the two dialects."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]
MESSAGES: Json = {"model": "client", "max_tokens": 64, "messages": [{"role": "user", "content": "Hi"}]}
CHAT: Json = {"model": "client", "messages": [{"role": "user", "content": "Hi"}]}
BODIES = {"messages": MESSAGES, "chat": CHAT}
CROSS = [("messages", "chat"), ("chat", "messages")]
CHAT_REPLY: Json = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "up",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "One END two"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
}


def raw(body: Json) -> bytes:
    """Return a body as it is sent."""
    return json.dumps(body).encode()
