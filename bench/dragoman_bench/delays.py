"""Delays: counted to the microsecond during the measurement, reported as an HDR histogram afterwards."""

from __future__ import annotations

from array import array
from typing import Any

_FINE = 1 << 16
"""Delays up to this many microseconds (65 ms) are counted by microsecond, longer ones by millisecond."""
_COARSE = 1 << 16
LONGEST_US = 3_600_000_000
_DIGITS = 3
PERCENTILES = (50.0, 90.0, 99.0, 99.9)
MISSING = "the benchmark rig needs hdrhistogram: in the checkout, pip install '.[bench]'"


def available() -> bool:
    """True if the histogram package is installed."""
    try:
        import hdrh.histogram  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        return False
    return True


class Delays:
    """A histogram of durations. Adding one costs an array access; HdrHistogram's Python code takes 2 µs.

    It has 131,072 counters. The resolution is a microsecond, from 65 ms a millisecond; durations over 65 s are equal.
    """

    __slots__ = ("_coarse", "_fine")

    def __init__(self) -> None:
        self._fine = array("Q", bytes(8 * _FINE))
        self._coarse = array("Q", bytes(8 * _COARSE))

    def add(self, duration_ns: int) -> None:
        """Count a duration in nanoseconds; negative ones (clocks of two cores) count as zero."""
        us = duration_ns // 1000
        if us < _FINE:
            self._fine[us if us > 0 else 0] += 1
        else:
            self._coarse[min(us // 1000, _COARSE - 1)] += 1

    def clear(self) -> None:
        """Reset all counters."""
        self.__init__()  # type: ignore[misc]

    def summary(self) -> dict[str, Any]:
        """Return `count`, `min`, `max`, `mean` and percentiles in ms, and the histogram itself (`hdr`, base64, µs).

        Raises ImportError with advice if the histogram package is missing.
        """
        try:
            from hdrh.histogram import HdrHistogram
        except ImportError as error:
            raise ImportError(MISSING) from error
        histogram = HdrHistogram(1, LONGEST_US, _DIGITS)
        for us, count in enumerate(self._fine):
            if count:
                histogram.record_value(us, count)
        for ms, count in enumerate(self._coarse):
            if count:
                histogram.record_value(ms * 1000, count)
        total = histogram.get_total_count()
        if not total:
            return {"count": 0}
        return {
            "count": total,
            "min": histogram.get_min_value() / 1000,
            "max": histogram.get_max_value() / 1000,
            "mean": histogram.get_mean_value() / 1000,
            **{f"p{share:g}": histogram.get_value_at_percentile(share) / 1000 for share in PERCENTILES},
            "hdr": histogram.encode().decode(),
        }
