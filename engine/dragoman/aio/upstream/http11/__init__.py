"""The transport on raw sockets: one `asyncio.Protocol` per connection, body bytes handed straight on (design §5)."""
