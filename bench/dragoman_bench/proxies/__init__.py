"""The rig's own gateways, each run as a process. This package imports nothing: none carries another's weight."""
