"""The transport on raw sockets: one `asyncio.Protocol` per connection, body bytes passed on (decision 0007)."""
