"""The APIs of the simulator: its own table, as it does not import the engine that is tested with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Api:
    """One API. The module `render_<dialect>` reads its requests and writes its replies."""

    path: str
    vendor: str
    conversation: str
    """The field of a request with the conversation."""
    count_path: str = ""
    """The path of the endpoint that counts tokens, if there is one."""
    count_object: str = ""
    """The `object` in a response of that endpoint, if it has one."""
    stored: bool = False
    """True if replies are stored, and continued by their ids."""

    @property
    def is_anthropic(self) -> bool:
        """True if errors, headers and model lists have Anthropic's form, not OpenAI's."""
        return self.vendor == "anthropic"


DEFAULT: Final = "chat"
APIS: Final = {
    DEFAULT: Api("/v1/chat/completions", "openai", "messages"),
    "messages": Api("/v1/messages", "anthropic", "messages", "/v1/messages/count_tokens"),
    "responses": Api(
        "/v1/responses", "openai", "input", "/v1/responses/input_tokens", "response.input_tokens", stored=True
    ),
}
"""The APIs by dialect."""
STORED: Final = next(dialect for dialect, api in APIS.items() if api.stored)
"""The dialect whose replies are stored."""
