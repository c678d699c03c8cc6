"""Policies: changes of a conversation between the client's reader and the upstream's writer (mapping §13).

Each is a function that changes the canonical request in place. It has a knob or a profile flag, and adds a loss row for
each change. The result for a turn depends only on the turns before it and next to it, so the translation of a longer
history begins with that of a shorter one. There are two exceptions: eviction, which documents when it breaks the
prefix, and a turn of which nothing is left.
"""

from __future__ import annotations

from dragoman.canonical.request import Request
from dragoman.dialects import FACTS
from dragoman.knobs import Knobs
from dragoman.losses import Losses
from dragoman.policies.adapt_schemas import adapt_schemas
from dragoman.policies.alternate_roles import alternate
from dragoman.policies.drop_billing_line import drop_billing_line
from dragoman.policies.evict_images import evict_images
from dragoman.policies.pad_first_user import pad_first_user
from dragoman.policies.repair_orphan_calls import repair_history
from dragoman.policies.results_first import put_results_first
from dragoman.profiles.profile import Profile

__all__ = (
    "adapt_schemas",
    "alternate",
    "apply",
    "drop_billing_line",
    "evict_images",
    "pad_first_user",
    "put_results_first",
    "repair_history",
)


def apply(
    request: Request, *, dialect: str, profile: Profile, knobs: Knobs, losses: Losses, settled: bool = False
) -> None:
    """Apply every policy that a knob asks for or that an upstream of `dialect` needs.

    The order matters: later policies fix what earlier ones leave. `settled` is true if calls and results are known to
    pair up (`call_ids.CallPairing.complete`). Raises `Unsupported` if a policy rejects the request, and for any change
    if losses are rejected.
    """
    if knobs.request_noise == "strip" and not profile.billing_line:
        drop_billing_line(request, losses)
    if not settled:
        facts = FACTS[dialect]
        verified = facts.signed_history and profile.thinking_replay == "verify"
        repair_history(request, knobs, losses, flagged=facts.flags_failed_results, verified=verified)
    if type(knobs.evict_images) is int:
        evict_images(request, knobs.evict_images, dialect=dialect, profile=profile, knobs=knobs, losses=losses)
    if profile.results_first:
        put_results_first(request, losses)
    if profile.strict_alternation:
        alternate(request, losses)
    if knobs.pad_first_user == "on":
        pad_first_user(request, losses)
    if request.tools or request.format is not None:
        adapt_schemas(request, profile, losses)
