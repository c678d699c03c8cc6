"""Token counts of request bodies, estimated here, for upstreams that cannot count themselves."""

from __future__ import annotations

from typing import NamedTuple

from dragoman.canonical.request import Request
from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.errors import ClientRequestError
from dragoman.knobs import DEFAULT_KNOBS
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.losses import Losses
from dragoman.tokens.by_body_size import by_body
from dragoman.tokens.by_characters import by_characters
from dragoman.tokens.by_vocabulary import VOCABULARY, by_vocabulary, vocabulary_installed
from dragoman.tokens.counter import Counter
from dragoman.wire.json_codec import loads


class TokenEstimate(NamedTuple):
    """An estimated count. `method` is the vocabulary's name (`o200k_base`), `characters` or `size`."""

    tokens: int
    method: str


class TokenCounter:
    """Estimates the prompt tokens of request bodies.

    It counts by a vocabulary if one is installed (`dragoman[tokens]`), else by characters, and remembers the counts of
    texts, as agents repeat most of their prompts. Several threads may use one.
    """

    def __init__(self) -> None:
        self.exact = vocabulary_installed()
        """True if a vocabulary is installed."""
        self._counter = Counter(by_vocabulary if self.exact else by_characters)

    def warm(self) -> None:
        """Load the vocabulary, which takes about a second: call it in a thread before the first count."""
        if self.exact:
            self._counter.texts([""])

    def count(self, dialect: Dialect, body: bytes, model: str, limits: Limits = DEFAULT_LIMITS) -> TokenEstimate:
        """Return an estimate for a request body as it is sent to an upstream of `dialect`, for its model `model`.

        A body that cannot be read, because it uses extensions of its server, is estimated by its size.
        """
        payload = loads(body)
        if dialect.facts.output_cap:
            payload.setdefault(dialect.facts.output_cap, 1)  # required by the reader, not by what counts
        try:
            prompt = CODECS[dialect].read_request(payload, Losses(), DEFAULT_KNOBS, limits)
        except (ClientRequestError, RecursionError):
            return TokenEstimate(by_body(Request(dialect, model, []), body, dialect), "size")
        return TokenEstimate(self._counter.request(prompt, dialect), VOCABULARY if self.exact else "characters")
