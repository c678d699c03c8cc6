"""`dragoman demo`: translated streams, drawn while they arrive."""
