"""A Hypothesis strategy for the numbers of metrics."""

from __future__ import annotations

from hypothesis import strategies as st

from dragoman_server.observability.metric_families import FAMILIES, Kind, Totals

LABEL = st.text(st.characters(codec="utf-8"), max_size=8)


@st.composite
def some_totals(draw: st.DrawFn) -> Totals:
    """Numbers of up to six metrics, with any labels."""
    totals = Totals()
    for family in draw(st.lists(st.sampled_from(list(FAMILIES.values())), max_size=6)):
        labels = tuple(draw(LABEL) for _ in family.labels)
        if family.kind is Kind.HISTOGRAM:
            totals.observe(family, labels, draw(st.integers(0, 1000)) / 4)
        else:
            totals.add(family, labels, draw(st.integers(0, 1000)))
    return totals
