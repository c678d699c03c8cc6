"""The limits of the client's named key: what a request may use, and what it has used."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from dragoman import Failure, Usage
from dragoman.wire import Json
from dragoman_server.draft import Draft
from dragoman_server.proxy.limits import estimate_by_size
from dragoman_server.proxy.longest_reply import LongestReply, longest_reply
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope

if TYPE_CHECKING:
    from dragoman_server.accounts.accounts import Accounts
    from dragoman_server.accounts.keys.record import KeyRecord
    from dragoman_server.accounts.limits.claim import Claim, Holds


_NO_HOLDS: Final[Holds] = (), False


def estimate(scope: RequestScope, draft: Draft) -> None:
    """Estimate the tokens of a body that passes through. It is a step of gateways that book usage."""
    context = scope.translation.context
    if not context.input_estimate:
        context.input_estimate = estimate_by_size(scope.translation.body)


async def limit(scope: RequestScope, draft: Draft) -> None:
    """Check the limits of the key, and reserve the estimate of the request, which is settled at its end.

    With a budget of cost, only candidates whose price is known stay in the ranking.
    """
    receipt, key, accounts = scope.receipt, scope.caller.key, scope.services.named_keys.accounts
    if key is None or accounts is None or key.limits.active is None:
        return
    translation = scope.translation
    tokens = _input_tokens(scope)
    model, provider = translation.upstream_model, receipt.provider
    holds = _holds(scope, draft, accounts, tokens) if key.limits.budgets else _NO_HOLDS
    claim = await accounts.admit(key, receipt.request_id, receipt.client, model, tokens, provider, holds=holds)
    scope.claim = claim
    scope.at_end(partial(_settle, accounts, claim))
    if claim.levels is not None:  # else the store was not asked
        scope.rate_headers = key.limits.rate_headers.write(claim.levels, receipt.client, scope.services.now())
    _drop_unpriced(draft, accounts, key)


def explained_reservation(scope: RequestScope, draft: Draft) -> Json | None:
    """Return what budgets of a key reserve for the reply of a request, as JSON; with the client's own budgets, if any.

    None if nothing is reserved, as in a gateway without named keys.
    """
    if not draft.loaded.named_keys:
        return None
    key, accounts = scope.caller.key, scope.services.named_keys.accounts
    reserved = _reserved(scope, draft)
    if not reserved.tokens:
        return None
    found: Json = {"output_tokens": reserved.tokens, "by": reserved.source}
    if key is not None and accounts is not None and key.limits.budgets:
        tokens = _input_tokens(scope)
        found["budgets"] = accounts.explained(key, _holds(scope, draft, accounts, tokens)[0])
    return found


def _input_tokens(scope: RequestScope) -> int:
    return scope.translation.context.input_estimate or estimate_by_size(scope.translation.body)


def _reserved(scope: RequestScope, draft: Draft) -> LongestReply:
    """Return the reply that budgets reserve for a request."""
    store, target = draft.loaded.config.store, draft.target
    if not store.reserve:
        return LongestReply(0, "")
    profile, endpoint = target.provider.profile, scope.receipt.endpoint
    return longest_reply(draft.payload, profile, target.upstream_model, store, endpoint)


def _holds(scope: RequestScope, draft: Draft, accounts: Accounts, tokens: int) -> Holds:
    """Return what the budgets of the key reserve for the reply, at the dearest target that the request may go to."""
    key, reserved = scope.caller.key, _reserved(scope, draft)
    if not reserved.tokens or key is None:
        return _NO_HOLDS
    targets: list[tuple[str, str | None]] = [(scope.translation.upstream_model, scope.receipt.provider)]
    if draft.ranking is not None and key.limits.has_cost:
        targets += [(each.upstream_model, each.provider.name) for each in draft.ranking]
    return accounts.holds(key, tokens, reserved.tokens, targets), not reserved.is_bound


def _drop_unpriced(draft: Draft, accounts: Accounts, key: KeyRecord) -> None:
    limits = key.limits.active
    if draft.ranking is not None and limits is not None and limits.has_cost:
        draft.ranking = [each for each in draft.ranking if accounts.has_price(each.upstream_model, each.provider.name)]


def _settle(accounts: Accounts, claim: Claim, receipt: Receipt, _: Failure | None) -> None:
    """Count what the request of a receipt used. The receipt must still have its translation."""
    translation = receipt.translation
    if translation is None:
        accounts.settle(claim, None, "", sent=False)
        return
    # Upstreams do not charge for requests that they refuse, nor for those that did not reach them.
    usage = receipt.usage
    sent = usage is not None or receipt.reached_upstream
    if usage is None and sent and receipt.endpoint and (tokens := translation.context.input_estimate):
        usage = Usage(input_total=tokens)  # a form's size, or the length of its audio, is known at the end
    facts = receipt.facts
    service = facts.service if facts is not None else None
    if receipt.runs_on is not None:  # its end may be read elsewhere: the one that comes first counts
        accounts.settle(claim, None, "", sent=True)
        if not receipt.runs_on:
            accounts.settle_end(claim, usage, translation.upstream_model, provider=receipt.provider, service=service)
        return
    accounts.settle(claim, usage, translation.upstream_model, sent=sent, provider=receipt.provider, service=service)
