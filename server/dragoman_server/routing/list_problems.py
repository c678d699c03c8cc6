"""Sentences for the user on why an upstream cannot be reached."""

from __future__ import annotations

import errno
from urllib.parse import urlsplit

from dragoman import UpstreamError
from dragoman.errors import UpstreamTimeout
from dragoman_server.config.provider import Provider

OLLAMA = 11434
SERVERS = {
    1234: ("LM Studio's server", "lms server start"),
    8000: ("vLLM", "vllm serve MODEL"),
    8080: ("llama.cpp's server", "llama-server -m FILE.gguf"),
    OLLAMA: ("Ollama", "ollama serve"),
    30000: ("SGLang", "python -m sglang.launch_server --model-path MODEL"),
}
"""Default port of a model server → its name, and the command that starts it."""


def port_of(provider: Provider) -> int:
    """Return the port in the provider's base URL, 0 if it names none."""
    return urlsplit(provider.base_url).port or 0


def unreachable(provider: Provider, error: Exception, seconds: float) -> str:
    """Return the sentence for a request that failed with `error` before a response, or that took `seconds`."""
    where, cause = provider.address(), error.__cause__
    if isinstance(error, TimeoutError | UpstreamTimeout):
        return f"{where} sent no response in {seconds:g} s"
    cause = getattr(cause, "os_error", cause)  # of aiohttp's errors
    if not (isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED):
        text = error.failure.message if isinstance(error, UpstreamError) else str(error)
        return f"{where} cannot be reached: {text.removeprefix('cannot connect to the upstream: ')}"
    server = SERVERS.get(port_of(provider))
    if server is None:
        return f"nothing listens on {where}: is the model server running?"
    title, command = server
    return f"nothing listens on {where}: is {title} running? It starts with: {command}"
