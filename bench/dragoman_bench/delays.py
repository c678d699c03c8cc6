"""Delays counted exactly to the microsecond while measuring, told as an HDR histogram afterwards."""

from __future__ import annotations

from array import array
from typing import Any

_FINE = 1 << 16
"""Microseconds counted one by one (65 ms); above, milliseconds."""
_COARSE = 1 << 16
LONGEST_US = 3_600_000_000
_DIGITS = 3
PERCENTILES = (50.0, 90.0, 99.0, 99.9)
MISSING = "the benchmark rig needs hdrhistogram: in the checkout, pip install '.[bench]'"


def available() -> bool:
    """Whether the histogram package is there."""
    try:
        import hdrh.histogram  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        return False
    return True


class Delays:
    """Durations in nanoseconds. Adding one costs an index into an array, where HdrHistogram's Python takes 2 µs.

    Bounded: 131,072 counters, whatever is added. From 65 ms the resolution is a millisecond, from 65 s all is one.
    """

    __slots__ = ("_coarse", "_fine")

    def __init__(self) -> None:
        self._fine = array("Q", bytes(8 * _FINE))
        self._coarse = array("Q", bytes(8 * _COARSE))

    def add(self, duration_ns: int) -> None:
        """Count one; what is below zero (clocks of two cores) counts as zero."""
        us = duration_ns // 1000
        if us < _FINE:
            self._fine[us if us > 0 else 0] += 1
        else:
            self._coarse[min(us // 1000, _COARSE - 1)] += 1

    def clear(self) -> None:
        """Forget them."""
        self.__init__()  # type: ignore[misc]

    def summary(self) -> dict[str, Any]:
        """`count`, `min`, `max`, `mean` and percentiles in ms, and the histogram itself (`hdr`, base64, µs).

        Raises ImportError with the way to install what is missing.
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
