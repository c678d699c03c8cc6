"""Load: clients that stop, leave, connect without end or are many, and what they cost the gateway and other clients.

Each scenario of `scenarios.SCENARIOS` starts a gateway and upstream simulators of its own as processes, and returns an
`outcome.Outcome`: figures, and checks that hold or do not. Sizes are in `sizes.Size`: those of a full run, or of a
sample that counts and does not time.
"""
