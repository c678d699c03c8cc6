"""The APIs of the simulator: its own table, as it does not import the engine that is tested with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Api:
    """One API. The module `render_<dialect>` reads its requests and writes its replies."""

    path: str
    """The path of its endpoint, with `{model}` if the model is in it and not in the body."""
    vendor: str
    """The module in `vendors/` with the form of errors, headers and model lists."""
    conversation: str = "messages"
    """The field of a request with the conversation."""
    instructions: str = ""
    """The field of a request with the instructions, if there is one."""
    stream_path: str = ""
    """The path for streams, if the body does not state that it wants one."""
    stream_query: str = ""
    """The query without which a stream is a JSON array, if there is such a query."""
    count_path: str = ""
    """The path of the endpoint that counts tokens, if there is one."""
    count_request: str = ""
    """The field of a request to that endpoint that may have the whole request."""
    count_field: str = "input_tokens"
    """The field of a response of that endpoint with the count."""
    count_object: str = ""
    """The `object` in a response of that endpoint, if it has one."""
    version_header: str = ""
    """The header that every request has, by which the API is known among those with the same paths."""
    stored: bool = False
    """True if replies are stored, and continued by their ids."""

    @property
    def version(self) -> str:
        """The version of the API, with which its paths begin."""
        return self.path.split("/")[1]


def in_versions(path: str) -> tuple[str, ...]:
    """Return a path in each version of its API: Google serves two. None for an empty path."""
    if path.startswith("/v1beta/"):
        return path, path.replace("/v1beta/", "/v1/", 1)
    return (path,) if path else ()


DEFAULT: Final = "chat"
APIS: Final = {
    DEFAULT: Api("/v1/chat/completions", "openai"),
    "messages": Api(
        "/v1/messages",
        "anthropic",
        instructions="system",
        count_path="/v1/messages/count_tokens",
        version_header="anthropic-version",
    ),
    "responses": Api(
        "/v1/responses",
        "openai",
        "input",
        "instructions",
        count_path="/v1/responses/input_tokens",
        count_object="response.input_tokens",
        stored=True,
    ),
    "generate": Api(
        "/v1beta/models/{model}:generateContent",
        "gemini",
        "contents",
        "systemInstruction",
        stream_path="/v1beta/models/{model}:streamGenerateContent",
        stream_query="alt=sse",
        count_path="/v1beta/models/{model}:countTokens",
        count_request="generateContentRequest",
        count_field="totalTokens",
    ),
}
"""The APIs by dialect."""
STORED: Final = next(dialect for dialect, api in APIS.items() if api.stored)
"""The dialect whose replies are stored."""
