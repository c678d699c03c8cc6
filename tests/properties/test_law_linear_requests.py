"""The work of translating a request grows with its size and not with its square, whatever it consists of.

Work is counted and not timed (`support.meter`): `n` of something and `4 n` of it, in every direction, with the policies
that the defaults leave out and without. Four times as much may take a little more than four times the work; a quadratic
path takes up to sixteen times.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from support.hostile import SHAPES
from support.meter import Metered

SMALL = 40
MOST = 5.0
"""Times the work for four times as much. Linear paths stay below 4.6, quadratic ones of these sizes are above 5.5."""

PARTS = 6
"""Parts of the shapes, which are tests of their own."""

DIALECTS = ("chat", "messages", "responses")
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": ({}, {}),
    "repaired": (
        {
            "strict_alternation": True,
            "results_first": True,
            "schema_root_union": False,
            "schema_refs": False,
            "context_window": 300,
        },
        {
            "evict_images": 2,
            "token_budget": 0.1,
            "pad_first_user": "on",
            "mid_system": "user",
            "hosted_tools": "map",
            "prefill": "drop",
            "custom_tool_bridge": "wrap",
            "null_arguments": "strip",
            "demote_reasoning": "on",
            "tool_prefixes": ("f=x_",),
        },
    ),
    "rewritten": (
        {
            "rewrite": True,
            "explicit_cache": True,
            "system_inline": True,
            "strict_schemas": "closed",
            "strict_refused": ("minLength",),
            "schema_refused": ("format",),
        },
        {
            "orphans": "strip",
            "prefill": "drop",
            "custom_tool_bridge": "wrap",
            "mid_system": "inline",
            "auto_cache": "on",
            "evict_images": 3,
        },
    ),
}


@pytest.fixture(scope="module")
def engine(metered: Metered) -> Metered:
    """The engine with a meter in it. What bounds a growth that is allowed is small, so that it shows as a bound."""
    metered["tools.bridge"].MAX_REPEATED = 500
    metered["policies.schema_union"].WRITTEN_OUT = 500
    metered["policies.schema_union"]._SCHEMAS = 10
    metered["policies.schema_keywords"].NODES = 300
    return metered


def work(engine: Metered, direction: Any, body: bytes, **settings: Any) -> int:
    """Return what the translation costs; a refused request costs what it took to find out."""

    def translate() -> None:
        with suppress(engine["errors"].ClientRequestError):
            engine["translate_request"].translate(direction, body, **settings)

    return engine.count(translate)[0]


@pytest.mark.few
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_four_times_as_much_is_about_four_times_the_work(
    engine: Metered, client: str, upstream: str, settings: str, part: int
) -> None:
    direction = engine.count(engine["dialects.directions"].direction, client, upstream)[1]
    flags, choices = SETTINGS[settings]
    given = {
        "profile": replace(engine.count(engine["profiles.profile"].builtin_profile, upstream)[1], **flags),
        "knobs": engine["knobs"].Knobs(**choices),
    }
    grown = {}
    for name, shape in list(SHAPES.items())[part::PARTS]:
        if client in shape:
            one, four = (
                work(engine, direction, json.dumps(shape[client](n)).encode(), **given) for n in (SMALL, 4 * SMALL)
            )
            grown[name] = four / one
    assert len(grown) > 40 / PARTS
    assert {name: round(times, 2) for name, times in grown.items() if times > MOST} == {}
