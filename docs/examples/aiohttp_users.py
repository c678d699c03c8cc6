"""An aiohttp application that has users of its own, and a model for them.

`authorize` finds the user of a request, `on_end` adds up what each one uses. All else is the gateway: dialects,
translation, streams. Users point any SDK at http://127.0.0.1:8080/llm with their key. Run it with
`python aiohttp_users.py`, and without a model before `python -m dragoman_server.simulator`.
"""

from __future__ import annotations

from collections import Counter

from aiohttp import web

from dragoman_server import Config, Dialect, ExchangeRecord, Principal, Provider, Route, setup

USERS = {"key-of-ada": "ada", "key-of-bob": "bob"}


def make_app(upstream: str) -> web.Application:
    """Return the application. `upstream` is the base URL of a server of Chat Completions."""
    used: Counter[str] = Counter()

    async def authorize(request: web.Request) -> Principal[None] | None:
        key = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        name = USERS.get(key)
        return None if name is None else Principal(name, data=None)

    def on_end(record: ExchangeRecord[None]) -> None:
        if record.principal is not None and record.usage is not None:
            used[record.principal.id] += (record.usage.input_total or 0) + (record.usage.output_total or 0)

    async def bill(_: web.Request) -> web.Response:
        return web.json_response(used)

    app = web.Application()
    app.router.add_get("/bill", bill)
    model = Provider("model", Dialect.CHAT, upstream)
    config = Config(providers={"model": model}, routes=[Route("*", "model", "sim-text")])
    setup(app, config, prefix="/llm", authorize=authorize, on_end=on_end)
    return app


if __name__ == "__main__":
    web.run_app(make_app("http://127.0.0.1:8811/v1"), port=8080, handler_cancellation=True)
