"""A straightforward translating aiohttp handler: line by line, one write per event, text only."""

from __future__ import annotations

import aiohttp
import orjson
from aiohttp import web

from dragoman_bench.proxies.minimal_translator_dialects import READERS, WRITERS, read_whole, rewrite_request
from dragoman_bench.proxies.serving import End, Place, serve

_BACKLOG = 4096
_LARGEST_REQUEST = 64 * 1024 * 1024
_PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


async def begin(place: Place) -> End:
    """Serve until the context ends."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None, sock_read=300)
    )
    read, url = READERS[place.dialect], place.upstream + _PATHS[place.dialect]

    async def translate(request: web.Request) -> web.StreamResponse:
        asked = orjson.loads(await request.read())
        body = rewrite_request(place.client, place.dialect, asked)
        async with session.post(url, data=body, headers={"content-type": "application/json"}) as answer:
            writer = WRITERS[place.client]()
            if not asked.get("stream"):
                text, writer.used = read_whole(place.dialect, orjson.loads(await answer.read()))
                whole = orjson.dumps(writer.whole(asked["model"], text))
                return web.Response(body=whole, content_type="application/json")
            out = web.StreamResponse()
            out.content_type = "text/event-stream"
            await out.prepare(request)
            await out.write(writer.open(asked["model"]))
            async for line in answer.content:
                if line.startswith(b"data: "):
                    for event in read([line.rstrip()], writer):
                        await out.write(event)
            await out.write_eof()
            return out

    app = web.Application(client_max_size=_LARGEST_REQUEST)
    app.router.add_post("/{path:.*}", translate)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", place.port, backlog=_BACKLOG).start()

    async def end() -> None:
        await runner.cleanup()
        await session.close()

    return end


if __name__ == "__main__":
    serve(begin)
