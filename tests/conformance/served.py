"""A gateway on a real socket in front of the simulated upstream, and what reached that upstream."""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import anthropic
import openai

from conformance.speaker import Speaker
from conformance.speaker_chat import ChatSpeaker
from conformance.speaker_messages import MessagesSpeaker
from conformance.speaker_responses import ResponsesSpeaker
from dragoman.dialects import Dialect
from dragoman.profiles.profile import builtin_profile
from dragoman_server.app import make_app
from dragoman_server.config.load import simulated_config
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config
from dragoman_server.simulator import REQUESTS, Received
from dragoman_server.workers.serve import listening
from oracles.simulator import strict_simulator

Upstream = Literal["chat", "messages"]
UPSTREAMS: tuple[Upstream, ...] = ("chat", "messages")
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
RETRY_AFTER = 7
"""Seconds that the simulator's errors name: not a number that anyone would come to by themselves."""


@dataclass(frozen=True, slots=True)
class Served:
    """`url` is the gateway's, without a path; `requests` what the upstream received."""

    url: str
    requests: deque[Received]

    def received(self, upstream: str | None = None, *, number: int = -1) -> Any:
        """The body of a request as it reached the upstream; `upstream` checks the dialect it was asked in."""
        request = self.requests[number]
        if upstream is not None:
            assert request.path == PATHS[upstream]
        return request.body


def path_at(upstream: str, script: str, *, streamed: bool) -> str:
    """The path of a request to an upstream. Gemini's has the model and the choice of a stream."""
    if upstream != "generate":
        return PATHS[upstream]
    return f"/v1beta/models/{script}:{'streamGenerateContent' if streamed else 'generateContent'}"


def model_at(upstream: str, script: str) -> str:
    """The name by which the simulated configuration plays a script in a dialect: `chat/sim-text`."""
    return f"{upstream}/{script}"


def everything_to(upstream: str, script: str) -> Config:
    """A configuration that sends any model name to one script: the upstream never receives the client's name."""
    provider = Provider("simulated", Dialect(upstream), "http://simulator.invalid", profile=builtin_profile(upstream))
    return Config({"simulated": provider}, (Route("*", "simulated", upstream_model=script),))


@asynccontextmanager
async def serving(config: Config | None = None, *, verify: bool = False, pause: float = 1.0) -> AsyncIterator[Served]:
    """Serve both. Without `config` it is the simulated one, whose model names choose the upstream's dialect.

    `verify` makes the upstream refuse reasoning that it did not sign. `pause` is the length in seconds of the pauses of
    `sim-slow` and `sim-agent-silent`.
    """
    simulator = strict_simulator(retry_after=RETRY_AFTER, verify=verify, slow=pause)
    async with listening(simulator, "127.0.0.1", 0, drain=0.5) as simulator_url:
        if config is None:
            config = simulated_config().with_simulator(simulator_url)
        else:
            providers = {
                name: Provider(name, provider.dialect, simulator_url, auth=provider.auth, profile=provider.profile)
                for name, provider in config.providers.items()
            }
            config = replace(config, providers=providers)
        async with listening(make_app(config), "127.0.0.1", 0, drain=0.5) as url:
            yield Served(url, simulator[REQUESTS])


@cache
def _trust() -> ssl.SSLContext:
    # No TLS is used here, but each SDK client would load the machine's certificates again: 0.1 s apiece.
    return ssl.create_default_context()


@asynccontextmanager
async def speaking(url: str) -> AsyncIterator[dict[str, Speaker]]:
    """A client of each dialect for a gateway."""
    async with anthropic_sdk(url) as claude, openai_sdk(url) as gpt:
        yield {"chat": ChatSpeaker(gpt), "messages": MessagesSpeaker(claude), "responses": ResponsesSpeaker(gpt)}


def anthropic_sdk(url: str) -> anthropic.AsyncAnthropic:
    """The vendor's client, which never retries."""
    http = anthropic.DefaultAsyncHttpxClient(verify=_trust())
    return anthropic.AsyncAnthropic(base_url=url, api_key="key", max_retries=0, http_client=http)


def openai_sdk(url: str, *, strict: bool = False) -> openai.AsyncOpenAI:
    """The vendor's client, which never retries; a `strict` one raises for a reply that its types do not allow."""
    http = openai.DefaultAsyncHttpxClient(verify=_trust())
    return openai.AsyncOpenAI(
        base_url=f"{url}/v1", api_key="key", max_retries=0, http_client=http, _strict_response_validation=strict
    )
