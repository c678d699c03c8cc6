"""Routing: the order of mapping §12.2, and that a client's model names cost bounded memory and break nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.errors import FailureKind
from dragoman.knobs import Knobs
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.load import parse_config, simulated_config
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config, Models
from dragoman_server.routing.router import MEMO, NAME_MAX, Router, UnknownModel

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
LOCAL = Provider("local", CHAT, "http://127.0.0.1:9000/v1")
OTHER = Provider("other", MESSAGES, "http://127.0.0.1:9001")
BOTH = {"local": LOCAL, "other": OTHER}


def went(router: Router, model: str, client: Dialect = CHAT) -> tuple[str, str]:
    target = router.resolve(model, client)
    return target.provider.name, target.upstream_model


def test_exact_before_patterns_before_addressing_before_families() -> None:
    router = Router(
        Config(
            providers=BOTH,
            routes=[
                Route("claude-*", "other"),
                Route("claude-opus-*", "local", "never"),
                Route("claude-opus-5", "local", "exact"),
                Route("local/special*", "other"),
            ],
            models=Models("local/big", "local/small"),
        )
    )
    assert went(router, "claude-opus-5") == ("local", "exact")
    assert went(router, "claude-opus-6") == ("other", "claude-opus-6")
    assert went(router, "local/special-1") == ("other", "local/special-1")
    assert went(router, "local/Qwen/Qwen3") == ("local", "Qwen/Qwen3")
    assert went(router, "anthropic.OPUS") == ("local", "big")


@pytest.mark.parametrize("everything", ["*", "**", "/.*/", "/.+/"])
def test_a_provider_and_its_model_come_before_a_route_for_every_name(everything: str) -> None:
    """In whatever form, for one dialect of clients or all, and as the big model."""
    routes = [Route("other/new", "local", "exact"), Route("local/old*", "other"), Route(everything, "other")]
    router = Router(Config(BOTH, routes))
    assert went(router, "local/Qwen/Qwen3") == ("local", "Qwen/Qwen3")
    assert router.resolve("local/Qwen/Qwen3", CHAT).route == "local/*"
    assert went(router, "other/new") == ("local", "exact")
    assert went(router, "local/old-1") == ("other", "local/old-1")
    assert went(router, "Qwen/Qwen3") == ("other", "Qwen/Qwen3")
    assert went(router, "local/") == ("other", "local/")
    assert ("local/big", "local") in Router(Config(BOTH, routes, Models(big="local/big"))).known_models()
    for client in CLIENT_DIALECTS:
        of_one = Router(Config(BOTH, [Route(everything, "other", client=client)]))
        assert went(of_one, "local/m", client) == ("local", "m")
        assert went(of_one, "m", client) == ("other", "m")


def test_addressing_needs_a_provider_and_a_name() -> None:
    router = Router(Config(providers=BOTH))
    for model in ("Qwen/Qwen3", "local/", "/local", "local", "locala/x"):
        with pytest.raises(UnknownModel):
            router.resolve(model, CHAT)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("gpt-?", "gpt-5", "gpt-55"),
        ("gpt-[45]*", "gpt-4o", "gpt-3"),
        ("gpt-[!45]*", "gpt-3", "gpt-4o"),
        ("gpt-[!0-9]", "gpt-x", "gpt-9"),
        ("a.b*", "a.bc", "axbc"),
        ("a+[*]", "a+*", "a+x"),
        ("a[]]", "a]", "a["),
        ("a[^&&~~||]", "a^", "ab"),
        ("*", "any\nthing", ""),
        ("/gpt-[0-9]+/", "gpt-55", "xgpt-55x"),
        ("/(?i)claude.*/", "Claude-Opus", "my-claude"),
        ("/models/qwen", "/models/qwen", "models/qwen"),
        ("a[b", "a[b", "ab"),
    ],
)
def test_patterns(pattern: str, yes: str, no: str) -> None:
    router = Router(Config(providers=BOTH, routes=[Route(pattern, "local")]))
    assert went(router, yes) == ("local", yes)
    with pytest.raises(UnknownModel):
        router.resolve(no, CHAT)


def test_the_upstreams_name_can_be_made_from_the_match() -> None:
    router = Router(
        Config(
            providers=BOTH,
            routes=[
                Route("my/*", "local", "*"),
                Route("x-[0-9]-*-y", "local", "made-*"),
                Route(r"/(\w+)@(?P<v>\d+)/", "local", r"\g<v>-\1"),
            ],
        )
    )
    assert went(router, "my/qwen\\1*") == ("local", "qwen\\1*")
    assert went(router, "x-7-abc-y") == ("local", "made-abc")
    assert went(router, "qwen@3") == ("local", "3-qwen")
    with pytest.raises(UnknownModel):  # an empty name is no name
        router.resolve("my/", CHAT)


def test_routes_for_one_client_dialect() -> None:
    router = Router(
        Config(
            providers=BOTH,
            routes=[
                Route("m", "other", client=CHAT),
                Route("m", "local"),
                Route("p*", "other", client=MESSAGES),
                Route("p*", "local"),
            ],
        )
    )
    assert [went(router, "m", client)[0] for client in (CHAT, MESSAGES, RESPONSES)] == ["other", "local", "local"]
    assert [went(router, "p", client)[0] for client in (CHAT, MESSAGES, RESPONSES)] == ["local", "other", "local"]


@pytest.mark.parametrize(
    ("model", "upstream"),
    [
        ("claude-opus-4-5", "b"),
        ("CLAUDE-SONNET-9", "b"),
        ("claude-fable-5-1", "b"),
        ("claude-mythos-5", "b"),
        ("anthropic/claude-3-5-Haiku-latest", "s"),
        ("b", "b"),
        ("s", "s"),
    ],
)
def test_family_words_in_any_case(model: str, upstream: str) -> None:
    target = Router(Config(providers={"local": LOCAL}, models=Models("b", "s"))).resolve(model, MESSAGES)
    assert (target.upstream_model, target.warning) == (upstream, None)


def test_one_size_stands_in_for_the_other() -> None:
    assert went(Router(Config(providers={"local": LOCAL}, models=Models(big="b"))), "haiku") == ("local", "b")
    assert went(Router(Config(providers={"local": LOCAL}, models=Models(small="s"))), "opus") == ("local", "s")


def test_family_words_mean_nothing_without_models() -> None:
    with pytest.raises(UnknownModel):
        Router(Config(providers={"local": LOCAL})).resolve("claude-opus-5", MESSAGES)


def test_sizes_go_through_routes_with_their_knobs() -> None:
    router = Router(
        Config(
            providers=BOTH,
            routes=[Route("gpt-*", "local", knobs={"on_loss": "reject"})],
            models=Models("gpt-x", "other/mini"),
            knobs=Knobs(orphans="strip"),
        )
    )
    assert router.resolve("opus", CHAT).knobs == Knobs(orphans="strip", on_loss="reject")
    assert router.resolve("haiku", CHAT).knobs == Knobs(orphans="strip")
    assert went(router, "haiku") == ("other", "mini")
    assert went(router, "mini") == ("other", "mini")


def test_an_unknown_name_goes_to_small_with_a_warning() -> None:
    router = Router(Config(providers={"local": LOCAL}, models=Models("b", "s")))
    target = router.resolve("gemini", CHAT)
    assert target.upstream_model == "s"
    assert target.warning == "unknown model 'gemini' was sent to s"
    assert router.resolve("gemini", CHAT).warning == target.warning, "also from the memo"


def test_an_unknown_name_passes() -> None:
    router = Router(Config(providers=BOTH, models=Models(unknown="pass")))
    target = router.resolve("Qwen/Qwen3", CHAT)
    assert (target.provider, target.upstream_model, target.warning) == (LOCAL, "Qwen/Qwen3", None)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    routes = [Route("one", "local"), Route("g*", "local"), Route("two", "other")]
    router = Router(Config(providers=BOTH, routes=routes, models=Models("local/b", unknown="reject")))
    with pytest.raises(UnknownModel) as caught:
        router.resolve("x", CHAT)
    failure = caught.value.failure
    assert (
        failure.message
        == "model 'x' is not configured; known models: one, two, local/b; patterns: g*, local/*, other/*"
    )
    assert (failure.kind, failure.status, failure.code) == (FailureKind.NOT_FOUND, 404, "model_not_found")
    many = Router(Config(providers=BOTH, routes=[Route(f"m{n}", "local") for n in range(30)]))
    with pytest.raises(UnknownModel, match=r"m19 and 10 more; patterns: local/\*, other/\*$"):
        many.resolve("x", CHAT)
    with pytest.raises(UnknownModel, match=r"no model is configured by name$"):
        Router(Config()).resolve("x", CHAT)
    apart = Router(Config(providers=BOTH, routes=[Route("a*", "local", client=MESSAGES), Route("/b/", "local")]))
    with pytest.raises(UnknownModel, match=r"configured; patterns: /b/, local/\*, other/\*$"):
        apart.resolve("x", CHAT)


def test_a_hostile_name_is_shown_harmlessly() -> None:
    hostile = "x\r\nset-cookie: a=b\u2028\udce4" + "y" * 300
    router = Router(Config(providers={"local": LOCAL}, models=Models(small="s")))
    warning = router.resolve(hostile, CHAT).warning
    assert warning is not None
    assert warning.isascii()
    assert warning.isprintable()
    assert len(warning) < 200
    with pytest.raises(UnknownModel) as caught:
        router.resolve("z" * (NAME_MAX + 1), CHAT)
    assert len(caught.value.failure.message) < 300
    with pytest.raises(UnknownModel):
        router.resolve("", CHAT)


def test_T76_the_memo_is_bounded() -> None:
    router = Router(Config(providers={"local": LOCAL}, models=Models(unknown="pass")))
    first = router.resolve("m0", CHAT)
    assert router.resolve("m0", CHAT) is first
    for n in range(3 * MEMO):
        router.resolve(f"m{n}", CHAT)
    memo: dict[Any, Any] = router._memo
    assert len(memo) == MEMO
    assert router.resolve("m0", CHAT) == first


def test_known_models_are_names_that_resolve() -> None:
    config = Config(
        providers=BOTH,
        routes=[Route("one", "local", "x"), Route("g*", "local"), Route("only", "other", client=RESPONSES)],
        models=Models("gpt", "other/mini"),
        models_listed=["listed-nowhere", "g-listed"],
    )
    known = Router(config).known_models()
    assert known == [
        ("one", "local"),
        ("only", "other"),
        ("gpt", "local"),
        ("other/mini", "other"),
        ("g-listed", "local"),
    ]


def test_a_file_may_list_names_that_only_a_pattern_knows() -> None:
    data = {
        "providers": {"local": {"dialect": "chat", "base_url": "http://127.0.0.1:9000/v1"}},
        "routes": [{"model": "gpt-*", "provider": "local"}],
        "models": {"listed": ["gpt-5", "gpt-5-mini"]},
    }
    assert Router(parse_config(data, {})).known_models() == [("gpt-5", "local"), ("gpt-5-mini", "local")]
    with pytest.raises(ConfigError, match=r"models\.listed\[0\]: expected a string; got 5"):
        parse_config({**data, "models": {"listed": [5]}}, {})


def test_a_wrong_configuration_makes_no_router() -> None:
    with pytest.raises(ConfigError, match=r"routes\[0\].provider"):
        Router(Config(routes=[Route("a", "nowhere")]))


# --- without a file ---------------------------------------------------------------------------------------------------


def test_the_simulator_shows_translation() -> None:
    config = simulated_config().with_simulator("http://127.0.0.1:1", ["sim-text"])
    router = Router(config)
    for client in CLIENT_DIALECTS:
        provider = router.resolve("sim-text", client).provider
        assert provider.dialect is not client
        for dialect in Dialect:
            assert went(router, f"{dialect}/sim-text", client) == (f"simulated-{dialect}", "sim-text")
    assert [name for name, _ in router.known_models()] == ["sim-text"]


def test_vendors_from_the_environment() -> None:
    env = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"}
    router = Router(config_from_environment(env))
    for model, provider in (
        ("claude-opus-5", "anthropic"),
        ("gpt-6", "openai"),
        ("o4-mini", "openai"),
        ("ft:gpt-6:x", "openai"),
    ):
        assert went(router, model) == (provider, model)
    assert went(router, "anthropic/opus") == ("anthropic", "opus")
    assert went(router, "openai/whatever") == ("openai", "whatever")
    with pytest.raises(UnknownModel):
        router.resolve("olmo", CHAT)
    # Named sizes are what Claude's names are then meant to become.
    sized = Router(config_from_environment({**env, "BIG_MODEL_NAME": "gpt-6", "SMALL_MODEL_NAME": "claude-haiku-5"}))
    assert went(sized, "claude-opus-5") == ("openai", "gpt-6")
    assert went(sized, "claude-3-5-haiku") == ("anthropic", "claude-haiku-5")
    assert went(sized, "anthropic/claude-opus-5") == ("anthropic", "claude-opus-5")


def test_openais_two_surfaces_are_chosen_by_the_client() -> None:
    """Each OpenAI dialect passes through; Messages gets Responses, which has reasoning next to tools (mapping §12)."""
    both = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"}
    surface = {CHAT: "openai", RESPONSES: "openai-responses", MESSAGES: "openai-responses"}
    for env in (both, {"OPENAI_API_KEY": "o"}):
        router = Router(config_from_environment(env))
        for client, provider in surface.items():
            assert went(router, "gpt-6", client) == (provider, "gpt-6")
            assert went(router, "openai/anything", client) == (provider, "anything")
            assert went(router, "openai-responses/gpt-6", client) == ("openai-responses", "gpt-6")
    assert (
        went(Router(config_from_environment({"OPENAI_API_KEY": "o"})), "claude-opus-5", MESSAGES)[0]
        == surface[MESSAGES]
    )
    assert went(Router(config_from_environment(both)), "claude-opus-5", RESPONSES)[0] == "anthropic"
    sized = {"BIG_MODEL_NAME": "gpt-6", "SMALL_MODEL_NAME": "claude-like"}
    for env in (
        {**both, "SMALL_MODEL_NAME": "openai/claude-like", "BIG_MODEL_NAME": "gpt-6"},
        {"OPENAI_API_KEY": "o", **sized},
    ):
        router = Router(config_from_environment(env))
        for client, provider in surface.items():
            assert went(router, "claude-opus-5", client) == (provider, "gpt-6")
            assert went(router, "claude-haiku-5", client) == (provider, "claude-like")


def test_one_upstream_takes_every_name() -> None:
    router = Router(config_from_environment({}, base_url="http://h/v1"))
    assert went(router, "claude-opus-5") == ("upstream", "claude-opus-5")
    sized = Router(config_from_environment({"BIG_MODEL_NAME": "qwen"}, base_url="http://h/v1"))
    assert went(sized, "claude-opus-5") == ("upstream", "qwen")
    assert went(sized, "claude-haiku-5") == ("upstream", "qwen")


def planned(router: Router, model: str) -> list[tuple[str, str, int]]:
    plan = router.resolve(model, CHAT).plan
    return (
        [] if plan is None else [(each.provider.name, each.upstream_model, each.priority) for each in plan.candidates]
    )


def test_a_route_with_one_attempt_at_one_provider_has_no_plan() -> None:
    router = Router(Config(BOTH, [Route("a", "local"), Route("*", "other")], Models(unknown="pass")))
    assert not router.has_plans
    assert [planned(router, model) for model in ("a", "b", "local/x")] == [[], [], []]


def test_the_plan_of_a_route_has_its_providers_in_their_order() -> None:
    targets = RouteTarget("other", "claude-*"), RouteTarget("local")
    router = Router(Config(BOTH, [Route("my-*", upstream_model="qwen-*", targets=targets)]))
    assert router.has_plans
    assert planned(router, "my-8b") == [("other", "claude-8b", 1), ("local", "qwen-8b", 2)]
    target = router.resolve("my-8b", CHAT)
    assert (target.provider, target.upstream_model) == (OTHER, "claude-8b")


@pytest.mark.parametrize("changes", [{"api_keys": (Secret("key-one"), Secret("key-two"))}, {"concurrent": 3}])
@pytest.mark.parametrize("model", ["local/x", "x", "exact"])
def test_keys_and_limits_of_a_provider_hold_for_every_way_to_it(changes: dict[str, Any], model: str) -> None:
    local = replace(LOCAL, **changes)
    router = Router(Config({"local": local}, [Route("exact", "local", "x")], Models(unknown="pass")))
    assert router.has_plans
    assert planned(router, model) == [("local", "x", 1)] * max(1, len(local.api_keys))


def test_a_general_number_of_attempts_makes_a_plan_for_all() -> None:
    router = Router(Config({"local": LOCAL}, models=Models(unknown="pass"), retries=RetryOptions(attempts=2)))
    plan = router.resolve("x", CHAT).plan
    assert plan is not None
    assert plan.attempts == 2


def test_a_provider_that_was_made_for_one_request_has_no_plan() -> None:
    router = Router(Config({"local": LOCAL}, retries=RetryOptions(attempts=2)))
    assert router.direct_target(replace(LOCAL), "x").plan is None
    assert router.direct_target(LOCAL, "x").plan is not None


@pytest.mark.parametrize(("model", "names"), [("gpt-5", ["gpt/5", "m-5"]), ("o-3", ["o/3", "m-3"])])
def test_a_regex_is_replaced_for_each_provider(model: str, names: list[str]) -> None:
    targets = RouteTarget("local"), RouteTarget("other", r"m-\2")
    route = Route("/(?P<family>gpt|o)-(.+)/", upstream_model=r"\g<family>/\2", targets=targets)
    assert [name for _, name, _ in planned(Router(Config(BOTH, [route])), model)] == names


def test_a_group_that_matched_nothing_leaves_out_its_provider() -> None:
    targets = RouteTarget("local", r"\1"), RouteTarget("other", "fixed")
    router = Router(Config(BOTH, [Route("/a(.*)/", targets=targets), Route("*", "local")]))
    assert planned(router, "a") == [("other", "fixed", 2)]
    assert planned(router, "ab") == [("local", "b", 1), ("other", "fixed", 2)]


def test_a_name_leads_to_each_provider_of_its_route() -> None:
    targets = RouteTarget("local"), RouteTarget("other", "x")
    router = Router(Config(BOTH, [Route("m", targets=targets)]))
    assert router.leads_to("m", CHAT, LOCAL, "m")
    assert router.leads_to("m", CHAT, OTHER, "x")
    assert not router.leads_to("m", CHAT, OTHER, "m")
