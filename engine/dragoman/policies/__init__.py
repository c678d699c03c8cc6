"""What is done to a conversation between the client's reader and the upstream's writer (mapping §13).

Pure functions over the canonical request, in place: each has its knob or its profile's flag, and a loss row for what it
changes. What becomes of a turn depends on what stands before it and right beside it, so the translation of a longer
history extends that of the shorter one; the exceptions are eviction, which says when it breaks the prefix, and a
stripped turn of which nothing is left.
"""

from __future__ import annotations

from dragoman.canonical.request import Request
from dragoman.knobs import Knobs
from dragoman.losses import Losses
from dragoman.policies.alternate_roles import alternate
from dragoman.policies.billing_line import drop_billing_line
from dragoman.policies.evict_images import evict_images
from dragoman.policies.orphan_calls import repair_history
from dragoman.policies.pad_first_user import pad_first_user
from dragoman.policies.results_first import put_results_first
from dragoman.policies.schemas import adapt_schemas
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
    """Every policy that is asked for or that the upstream of `dialect` needs, each after those whose leavings it has to
    mend. `settled` says that no call and no result wants another (`call_ids.Pairing`). Raises `Unsupported` where a
    policy is to refuse, and for any change if losses are refused."""
    if knobs.request_noise == "strip" and not profile.billing_line:
        drop_billing_line(request, losses)
    if not settled:
        flagged = dialect == "messages"
        verified = flagged and profile.thinking_replay == "verify"
        repair_history(request, knobs, losses, flagged=flagged, verified=verified)
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
