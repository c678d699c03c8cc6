"""Real clients run against the gateway: the agents, SDKs and frameworks that people point at it."""
