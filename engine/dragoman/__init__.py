"""Dragoman: translate between model APIs, as pure functions or as stages of a stream.

    from dragoman import direction, translate

    sent = translate(direction("messages", "chat"), body)     # a Messages request for a Chat upstream
    sent.body, sent.losses.rows                                # what to send, and what could not be carried
    sent.reply(upstream_body)                                  # a whole reply for the client
    machine = sent.stream_machine()                            # or a stream: machine.feed(bytes) -> bytes

Importing this imports neither aiohttp nor uvloop; what does I/O is in `dragoman.aio`.
"""

from dragoman.dialects import Dialect
from dragoman.dialects.codec import CODECS
from dragoman.directions import DIRECTIONS, Direction, direction
from dragoman.errors import DragomanError, Failure, FailureKind
from dragoman.knobs import Knobs
from dragoman.limits import Limits
from dragoman.losses import Loss, LossCode, Losses
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.reply_context import ReplyContext
from dragoman.stages.base import Chain, Stage, pipeline, run
from dragoman.translate import Translation, translate

__all__ = (
    "CODECS",
    "DIRECTIONS",
    "Chain",
    "Dialect",
    "Direction",
    "DragomanError",
    "Failure",
    "FailureKind",
    "Knobs",
    "Limits",
    "Loss",
    "LossCode",
    "Losses",
    "Profile",
    "ReplyContext",
    "Stage",
    "Translation",
    "builtin_profile",
    "direction",
    "pipeline",
    "run",
    "translate",
)
