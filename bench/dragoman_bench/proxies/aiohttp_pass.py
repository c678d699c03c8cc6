"""The baseline: a straightforward aiohttp proxy. It translates nothing and checks nothing."""

from __future__ import annotations

import aiohttp
from aiohttp import web

from dragoman_bench.proxies.serving import End, Place, serve

_BACKLOG = 4096
_LARGEST_REQUEST = 64 * 1024 * 1024
NOT_FORWARDED = frozenset({"host", "content-length", "connection", "transfer-encoding", "accept-encoding"})


async def begin(place: Place) -> End:
    """Serve until the context ends."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None, sock_read=300)
    )

    async def proxy(request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_FORWARDED}
        url = place.upstream + request.path_qs
        async with session.post(url, data=await request.read(), headers=headers) as answer:
            out = web.StreamResponse(status=answer.status)
            out.content_type = answer.content_type
            await out.prepare(request)
            async for chunk in answer.content.iter_any():
                await out.write(chunk)
            await out.write_eof()
            return out

    app = web.Application(client_max_size=_LARGEST_REQUEST)
    app.router.add_post("/{path:.*}", proxy)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", place.port, backlog=_BACKLOG).start()

    async def end() -> None:
        await runner.cleanup()
        await session.close()

    return end


if __name__ == "__main__":
    serve(begin)
