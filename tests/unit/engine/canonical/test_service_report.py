"""An upstream's statements about its service of a reply."""

from __future__ import annotations

from dragoman.canonical.service_report import ServiceReport


def test_a_report_without_statements_and_a_repr_without_lists() -> None:
    report = ServiceReport()
    assert (report.tier, report.cost, report.searches, report.applied_edits) == (None, None, None, None)
    assert "secret" not in repr(ServiceReport("default", applied_edits=[{"type": "secret"}]))
