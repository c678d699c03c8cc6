"""The dashboard and the alert rules below docs/deploy name metrics and labels that exist, and show all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml

from dragoman_server.observability.metric_families import FAMILIES, Family, Kind
from support.paths import ROOT

DEPLOY = ROOT / "docs/deploy"
SCRAPED = {"job", "instance", "le"}
"""Labels that Prometheus adds, or that a histogram's buckets have."""
SUFFIXES = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count"), Kind.COUNTER: ("",), Kind.GAUGE: ("",)}
SERIES = {f"{family.name}{suffix}": family for family in FAMILIES.values() for suffix in SUFFIXES[family.kind]}
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
RULES: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus-alerts.yml").read_text("utf-8"))


def panels() -> Iterator[dict[str, Any]]:
    return (panel for panel in DASHBOARD["panels"] if panel["type"] != "row")


def alerts() -> Iterator[dict[str, Any]]:
    return (rule for group in RULES["groups"] for rule in group["rules"])


@cache
def expressions() -> tuple[str, ...]:
    shown = [target["expr"] for panel in panels() for target in panel["targets"]]
    asked = [variable["query"] for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query"]
    return (*shown, *asked, *(rule["expr"] for rule in alerts()))


def named(expression: str) -> set[str]:
    return set(re.findall(r"\bdragoman_\w+", expression))


def labels_of(expression: str) -> set[str]:
    """The labels that an expression selects or groups by."""
    grouped = [label for group in re.findall(r"\bby \(([^)]*)\)", expression) for label in re.split(r",\s*", group)]
    asked = re.findall(r"label_values\(.*,\s*(\w+)\)\Z", expression)
    return {*grouped, *asked, *re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', expression)}


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_series_that_exist(expression: str) -> None:
    assert named(expression)
    assert named(expression) <= SERIES.keys()
    known: set[str] = set()
    for name in named(expression):
        known.update(SERIES[name].labels)
    assert labels_of(expression) <= known | SCRAPED
    assert expression.count("(") == expression.count(")")
    assert expression.count("{") == expression.count("}")
    assert expression.count("[") == expression.count("]")


@pytest.mark.parametrize("expression", expressions())
def test_counters_are_rates_and_buckets_are_quantiles(expression: str) -> None:
    for name in named(expression):
        kind = SERIES[name].kind
        inside = rf"(?:rate|increase)\({name}(?:\{{[^}}]*\}})?\["
        if "label_values" not in expression:
            assert bool(re.search(inside, expression)) == (kind is not Kind.GAUGE), name
        if name.endswith("_bucket"):
            assert "histogram_quantile(" in expression
            assert re.search(r"sum by \(le\b", expression)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_every_family_is_shown(family: Family) -> None:
    shown = set().union(*(named(target["expr"]) for panel in panels() for target in panel["targets"]))
    assert any(f"{family.name}{suffix}" in shown for suffix in SUFFIXES[family.kind]), "add a panel to the dashboard"


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_legends_name_labels_that_remain() -> None:
    for panel in panels():
        for target in panel["targets"]:
            remaining = {
                label for group in re.findall(r"\bby \(([^)]*)\)", target["expr"]) for label in re.split(r",\s*", group)
            }
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= remaining, target


def test_alerts_are_whole() -> None:
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names)) > 15
    for rule in alerts():
        assert rule["labels"]["severity"] in ("page", "ticket")
        known = {label for name in named(rule["expr"]) for label in SERIES[name].labels} | {"instance", "job"}
        text = " ".join(rule["annotations"].values())
        assert rule["annotations"]["summary"]
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= known


def test_the_page_names_every_alert() -> None:
    page = (ROOT / "docs/howto/observability.md").read_text("utf-8")
    assert {rule["alert"] for rule in alerts()} == set(re.findall(r"`(Dragoman\w+)`", page))
