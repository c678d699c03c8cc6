"""The benchmark rig: gateways side by side, under the same load, on the same machine."""
