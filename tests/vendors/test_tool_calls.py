"""`dragoman check --connect --tools` against the strict host of each vendor.

With the vendor's profile nothing differs. With that of an unknown host, the repairs that the reports name lead to
flags that the vendor's profile has, and then nothing differs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman.profiles.profile import Profile, builtin_profile
from dragoman_server.cli.tool_calls.ask import ask
from dragoman_server.cli.tool_calls.differences import Difference, differences
from dragoman_server.cli.tool_calls.question import models_to_ask
from dragoman_server.config.door import Door
from dragoman_server.config.provider import Provider
from dragoman_server.config.schema import Config
from vendors.hosts import HOSTS, Host
from vendors.strict_host import KEY, StrictHost, strict_host

ENDPOINTS = {"chat": "/chat/completions", "messages": "/v1/messages", "responses": "/responses"}
FLAG = "providers.up.profile_flags."
MOST = 8
"""Most repairs of one host."""
by_host = pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)


async def found(strict: StrictHost, profile: Profile, name: str = "") -> list[Difference]:
    """The differences of a host from a profile."""
    host = strict.host
    base = strict.url + host.endpoint.removesuffix(ENDPOINTS[host.dialect])
    door = Door(auth_header="bearer" if host.header == "authorization" else host.header)
    up = Provider("up", host.dialect, base, KEY, profile=profile, profile_name=name, door=door)  # type: ignore[arg-type]
    config = Config(providers={"up": up})
    answers = await ask(config, models_to_ask(config, ["up/some-model"]))
    assert [answer.client.value for answer in answers] == ["chat", "messages", "responses"]
    return [difference for answer in answers for difference in differences(answer)]


@pytest.mark.few
@by_host
async def test_a_host_agrees_with_its_profile(host: Host) -> None:
    async with strict_host(host) as strict:
        assert await found(strict, builtin_profile(host.dialect, host.profile), host.profile) == []
        assert len(strict.arrived) == 3


@pytest.mark.few
@by_host
async def test_the_repairs_lead_from_an_unknown_host_to_its_profile(host: Host) -> None:
    profile, taken = builtin_profile(host.dialect, "compatible"), 0
    async with strict_host(host) as strict:
        while left := await found(strict, profile):
            repair = next(each.repair for each in left if each.repair is not None)
            assert repair.path.startswith(FLAG)
            profile, before = profile.replace({repair.path.removeprefix(FLAG): repair.value}), profile
            assert profile != before
            taken += 1
            assert taken <= MOST, left
    vendors = builtin_profile(host.dialect, host.profile)
    unknown = builtin_profile(host.dialect, "compatible")
    changed = {name for name in Profile.__dataclass_fields__ if getattr(profile, name) != getattr(unknown, name)}
    assert replace(unknown, **{name: getattr(vendors, name) for name in changed}) == profile
    assert (taken > 0) == bool(changed)


async def test_the_quirks_of_the_vendors_are_many() -> None:
    """The test above would pass if nothing differed."""
    seen = set()
    for name in ("mistral", "cohere", "groq"):
        host = next(host for host in HOSTS if host.page == name)
        async with strict_host(host) as strict:
            seen |= {
                each.repair.path for each in await found(strict, builtin_profile("chat", "compatible")) if each.repair
            }
    flags = ("stream_usage", "parallel_tool_calls", "reasoning_key")
    assert seen == {f"{FLAG}{flag}" for flag in flags}
