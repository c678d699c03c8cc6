"""A strict reader of Prometheus' text format 0.0.4, for what `GET /metrics` answers."""

from __future__ import annotations

import re

Sample = tuple[str, tuple[tuple[str, str], ...]]
"""A sample's name, and its labels in order."""

_SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)\Z")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|\Z)')
_ESCAPES = {r"\"": '"', r"\\": "\\", r"\n": "\n"}


def read_exposition(page: bytes) -> dict[Sample, float]:
    """Every sample. Fails for whatever Prometheus or OpenMetrics would not take."""
    text = page.decode()
    assert text.endswith("\n")
    samples: dict[Sample, float] = {}
    family, kind, seen = "", "", set[str]()
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            family = line.split(" ", 3)[2]
            assert family not in seen, f"{family} twice"
            seen.add(family)
            kind = ""
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family
            assert (kind == "counter") == name.endswith("_total"), name
            continue
        assert kind, f"a sample without a type: {line}"
        found = _SAMPLE.match(line)
        assert found, line
        name, labels, value = found.groups()
        base = re.sub(r"_(bucket|sum|count)\Z", "", name) if kind == "histogram" else name
        assert base == family, line
        pairs = _labels(labels or "")
        assert (name, pairs) not in samples, f"twice: {line}"
        samples[name, pairs] = float(value)
    _check_histograms(samples)
    return samples


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        found = _LABEL.match(text, at)
        assert found, text
        pairs.append((found[1], re.sub(r"\\.", lambda match: _ESCAPES[match[0]], found[2])))
        at = found.end()
    return tuple(pairs)


def _check_histograms(samples: dict[Sample, float]) -> None:
    last: dict[Sample, float] = {}
    for (name, labels), value in samples.items():
        if name.endswith("_bucket"):
            key = (name.removesuffix("_bucket"), labels[:-1])
            assert labels[-1][0] == "le"
            assert value >= last.get(key, 0), f"{name} goes down"
            last[key] = value
            if labels[-1][1] == "+Inf":
                assert samples[key[0] + "_count", key[1]] == value
                assert (key[0] + "_sum", key[1]) in samples


def total(samples: dict[Sample, float], name: str, **labels: str) -> float:
    """The sum of a sample's values over all labels that are not given."""
    return sum(
        value
        for (sample, pairs), value in samples.items()
        if sample == name and all((label, wanted) in pairs for label, wanted in labels.items())
    )
