"""What the tests share: generators of streams, a scripted server, a clock that stands still."""
