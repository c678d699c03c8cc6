"""The output limits of models that a gateway knows."""

from dragoman import Dialect, Profile
from dragoman.gateway import ListedModel
from dragoman_server.config.provider import Provider
from dragoman_server.routing import output_limits
from dragoman_server.routing.output_limits import OutputLimits

UPSTREAM = Provider("a", Dialect.MESSAGES, "http://a.test", profile=Profile())


def limit_of(limits: OutputLimits, model: str, provider: Provider = UPSTREAM) -> int:
    return limits.profile(provider, model).default_max_tokens


def test_the_limits_of_a_list() -> None:
    limits = OutputLimits()
    limits.add_list(UPSTREAM, [ListedModel("m", max_output=9), ListedModel("w", context_window=5000), ListedModel("n")])
    assert [limit_of(limits, name) for name in ("m", "w", "n")] == [9, 2500, 0]
    assert limits.profile(UPSTREAM, "m") is limits.profile(UPSTREAM, "m")
    limits.add(UPSTREAM, "m", 8)
    assert limit_of(limits, "m") == 8


def test_another_upstream_and_the_operators_own_limit() -> None:
    limits = OutputLimits()
    limits.add(UPSTREAM, "m", 9)
    for flags in ({"default_max_tokens": 5}, {"max_output_tokens": 6}):
        profile = Profile().replace(flags)
        own = Provider("a", Dialect.MESSAGES, "http://a.test", profile=profile)
        assert limits.profile(own, "m") is own.profile
    other = Provider("a", Dialect.MESSAGES, "http://b.test", profile=Profile())
    assert limits.profile(other, "m") is other.profile
    chat = Provider("c", Dialect.CHAT, "http://c.test", profile=Profile())
    limits.add_list(chat, [ListedModel("m", max_output=9)])
    assert limits.profile(chat, "m") is chat.profile


def test_the_oldest_limit_is_dropped() -> None:
    limits = OutputLimits()
    for number in range(output_limits.KEPT + 1):
        limits.add(UPSTREAM, str(number), 9)
        limits.profile(UPSTREAM, str(number))
    assert [limit_of(limits, name) for name in ("0", "1", str(output_limits.KEPT))] == [0, 9, 9]
