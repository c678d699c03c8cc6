"""The gateway below /llm of a Starlette application; FastAPI mounts it alike.

The application keeps its routes, its middlewares and its server, and starts and stops the gateway by its lifespan. Run
it with `uvicorn asgi_mount:app --port 8080`, and without a model before `python -m dragoman_server.simulator`. The base
URL is http://127.0.0.1:8080/llm for Anthropic's SDK, and http://127.0.0.1:8080/llm/v1 for OpenAI's.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.routing import Route as Path

from dragoman_server import Config, Dialect, Provider, Route, asgi


async def home(_: Request) -> PlainTextResponse:
    """Answer for the application itself."""
    return PlainTextResponse("the application itself\n")


def make_app(upstream: str) -> Starlette:
    """Return the application. `upstream` is the base URL of a server of Chat Completions."""
    model = Provider("model", Dialect.CHAT, upstream)
    llm = asgi.app(Config(providers={"model": model}, routes=[Route("*", "model", "sim-text")]))
    return Starlette(routes=[Path("/", home), Mount("/llm", llm)], lifespan=llm.lifespan)


app = make_app("http://127.0.0.1:8811/v1")
