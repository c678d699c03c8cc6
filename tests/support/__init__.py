"""Tools of the tests: generators of streams, a scripted server, a clock that stands still."""
