"""The counters of requests that end in the same way, which one lookup finds."""

from __future__ import annotations

from dragoman_server.observability import metric_families as families
from dragoman_server.observability.metric_families import Series, Totals

Ending = tuple[str, str, str, str, int, bool | None, bool]
"""The end of a request: client, provider, route, `ended`, the first digit of the status, whether it was to be streamed
(None if it was not translated), and whether a stream has begun."""


class LabelledSeries(dict[str, list[float]]):
    """The values of a series by its last label. The labels before it, `first`, are the same for all."""

    def __init__(self, series: Series, *first: str) -> None:
        self._series = series
        self._first = first

    def __missing__(self, label: str) -> list[float]:
        value = self[label] = self._series[(*self._first, label)]
        return value


class EndCounters:
    """The counters of the requests with one `Ending`. A list that they do not count in is empty."""

    def __init__(self, totals: Totals, ending: Ending, tokens: LabelledSeries) -> None:
        client, provider, route, ended, status, stream, begun = ending
        self._totals = totals
        self.ending = ending
        self.open_requests = totals.series(families.OPEN_REQUESTS)[client,]
        self.open_streams = totals.series(families.OPEN_STREAMS)[client,] if begun else []
        self.requests = totals.series(families.REQUESTS)[client, provider, route, ended, f"{status}xx"]
        self.durations: list[float] = []
        if stream is not None:
            self.durations = totals.series(families.DURATION)[client, provider, "true" if stream else "false"]
        self.first_events = totals.series(families.FIRST_EVENT)[client, provider] if begun else []
        self.tokens = tokens
        """Those of the provider, by kind."""
        self.token_times: list[float] | None = None
        """None until a reply has more than one token."""

    def add_token_times(self) -> list[float]:
        """Return the counters of the gaps between tokens, which only some streams have."""
        client, provider, *_ = self.ending
        self.token_times = times = self._totals.series(families.TOKEN_TIME)[client, provider]
        return times


class Endings(dict[Ending, EndCounters]):
    """The counters by `Ending`. Those that do not exist are created."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._tokens: dict[str, LabelledSeries] = {}

    def __missing__(self, ending: Ending) -> EndCounters:
        provider = ending[1]
        tokens = self._tokens.get(provider)
        if tokens is None:
            tokens = self._tokens[provider] = LabelledSeries(self._totals.series(families.TOKENS), provider)
        counters = self[ending] = EndCounters(self._totals, ending, tokens)
        return counters
