"""Golden requests: the upstream's body and the losses of a client's request, for a direction, profile and knobs.

    tests/golden/requests/<concept>/<client>_<topic>.json

A file holds the keys below, for one case, or for several named ones in `cases`. A case takes over the keys of its file;
its `request` replaces single fields of the file's.

    why             the rule, with a citation of the mapping
    client          the client's dialect
    upstream        the upstream's dialect
    profile         name of a built-in profile, or flags to change, with `name` for the profile to change
    knobs, limits   the fields that differ from the defaults
    request         the client's body; or `fixture`, the name of a recorded one in tests/fixtures
    body            the upstream's body
    losses          rows of code, path, and what was done; absent if nothing was lost
    stop_sequences  the stop sequences that Dragoman emulates, if there are any
    renamed_tools   the tools that were sent under another name, if there are any
    rejected        the error of the vendor's API for this body (tests/oracles), if it is invalid: then the client's own
                    request was, or the body is for another server
    error           the error, for a request that is rejected here

To add a case, write a file without the last six keys. `DRAGOMAN_GOLDENS=write` records them, in one process; read the
difference as if you were the upstream.
"""

from __future__ import annotations

import json
import os
import re
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dragoman import ClientRequestError, Knobs, Limits, Profile, builtin_profile, direction, translate
from dragoman_server.simulator.error_replies import RequestRejected
from oracles.requests import check
from support.paths import FIXTURES, ROOT

HERE = Path(__file__).parent / "requests"
WRITE = os.environ.get("DRAGOMAN_GOLDENS") == "write"
INPUTS = ("why", "client", "upstream", "profile", "knobs", "limits", "request", "fixture")
OUTCOMES = ("body", "losses", "stop_sequences", "renamed_tools", "rejected", "error")
HEADERS = {"anthropic-version": "2023-06-01"}
WIDTH = 120
_CITATION = re.compile(r"\b(mapping|chat|messages|responses) \u00a7(\d+(?:\.\d+)*)")
_ANCHOR = re.compile(r'^<a id="s[\d-]+"></a>\n#+ (\d[\d.]*) ', re.MULTILINE)


def text_of(value: Any) -> str:
    """JSON on one line. Numbers are written as they were read: `1.10` stays `1.10`."""
    if type(value) is dict:
        return "{" + ", ".join(f"{json.dumps(key)}: {text_of(item)}" for key, item in value.items()) + "}"
    if type(value) is list:
        return "[" + ", ".join(map(text_of, value)) + "]"
    return str(value) if type(value) is Decimal else json.dumps(value, ensure_ascii=False)


def pretty(value: Any, indent: str = "", used: int = 0) -> str:
    """JSON whose objects and arrays are on one line if they fit; `used` is what stands before them on the line."""
    line = text_of(value)
    if type(value) not in (dict, list) or len(indent) + used + len(line) < WIDTH:
        return line
    inner = indent + "  "
    if type(value) is list:
        rows, ends = [pretty(item, inner) for item in value], "[]"
    else:
        keys = [(f"{json.dumps(key)}: ", item) for key, item in value.items()]
        rows, ends = [key + pretty(item, inner, len(key)) for key, item in keys], "{}"
    return ends[0] + "\n" + ",\n".join(inner + row for row in rows) + "\n" + indent + ends[1]


def load(text: str | bytes) -> Any:
    return json.loads(text, parse_float=Decimal)


def read(path: Path) -> Any:
    return load(path.read_bytes())


def cases_of(golden: Any) -> dict[str, Any]:
    cases: dict[str, Any] = golden.get("cases", {"": golden})
    return cases


def profile_of(upstream: str, given: str | dict[str, Any]) -> Profile:
    flags = {"name": given} if isinstance(given, str) else dict(given)
    name = flags.pop("name", None)
    return builtin_profile(upstream, name).replace(flags)


def merged(golden: Any, case: Any) -> Any:
    """The case with the keys of its file."""
    if "fixture" in golden:
        request = read(FIXTURES / f"{golden['fixture']}.json")["request"]["body"]
    else:
        request = golden["request"]
    return {**golden, **case, "request": {**request, **case.get("request", {})}}


def rejection(upstream: str, body: bytes) -> str | None:
    """The error message of the vendor's API for this body, or None."""
    try:
        check(upstream, json.loads(body), HEADERS)
    except RequestRejected as error:
        return str(error)
    return None


def outcome_of(case: Any) -> dict[str, Any]:
    """The keys of `OUTCOMES` that the translation of this case has."""
    # Only bodies need their numbers as they are written.
    given = json.loads(text_of({key: case.get(key, {}) for key in ("profile", "knobs", "limits")}))
    try:
        translation = translate(
            direction(case["client"], case["upstream"]),
            text_of(case["request"]).encode(),
            profile=profile_of(case["upstream"], given["profile"]),
            knobs=Knobs(**given["knobs"]),
            limits=Limits(**given["limits"]),
        )
    except ClientRequestError as error:
        failure = error.failure
        raised = {"type": type(error).__name__, "status": failure.status}
        return {"error": {**raised, "message": failure.message, "param": failure.param}}
    found = {
        "body": load(translation.body),
        "losses": [list(loss) for loss in translation.losses.rows],
        "stop_sequences": list(translation.stop_sequences),
        "renamed_tools": translation.renamed_tools,
        "rejected": rejection(case["upstream"], translation.body),
    }
    return {key: value for key, value in found.items() if value}


def record(path: Path, name: str, outcome: dict[str, Any]) -> None:
    golden = read(path)
    case = cases_of(golden)[name]
    for key in OUTCOMES:
        case.pop(key, None)
    case.update(outcome)
    path.write_text(pretty(golden) + "\n", "utf-8")


FILES = {str(path.relative_to(HERE).with_suffix("")): path for path in sorted(HERE.rglob("*.json"))}
CASES = [
    pytest.param(path, name, id=f"{file}:{name}" if name else file)
    for file, path in FILES.items()
    for name in cases_of(read(path))
]


@pytest.mark.every_row
@pytest.mark.parametrize(("path", "name"), CASES)
def test_golden_request(path: Path, name: str) -> None:
    golden = read(path)
    case = cases_of(golden)[name]
    found = outcome_of(merged(golden, case))
    if WRITE:
        record(path, name, found)
        return
    expected = {key: case[key] for key in OUTCOMES if key in case}
    assert pretty(found) == pretty(expected)


@cache
def sections() -> frozenset[tuple[str, str]]:
    pages = {name: [ROOT / f"docs/reference/{name}.md"] for name in ("chat", "messages", "responses")}
    pages["mapping"] = sorted((ROOT / "docs/reference/mapping").glob("*.md"))
    return frozenset(
        (name, number)
        for name, paths in pages.items()
        for path in paths
        for number in _ANCHOR.findall(path.read_text("utf-8"))
    )


@pytest.mark.parametrize("path", FILES.values(), ids=FILES)
def test_the_file_is_in_order(path: Path) -> None:
    """It has known keys only, cites a rule that can be looked up, and has the form in which it is recorded."""
    golden = read(path)
    cited = set(_CITATION.findall(golden["why"]))
    assert cited, "`why` cites no rule"
    assert cited <= sections()
    for case in cases_of(golden).values():
        assert case.keys() <= {*INPUTS, *OUTCOMES}
        assert ("body" in case) is not ("error" in case), "not recorded yet"
    assert golden.keys() <= {*INPUTS, *(("cases",) if "cases" in golden else OUTCOMES)}
    assert path.stem.startswith(golden["client"])
    assert path.read_text("utf-8") == pretty(golden) + "\n"
