"""`dragoman import`: configurations of other gateways, written as a configuration of this one."""
