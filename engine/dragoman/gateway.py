"""Names for programs that are gateways: what the server of this project is built on, beyond `dragoman` itself.

    requests       parse_body forward edit_members EFFORTS ReplyOptions StoredReply
    dialects       CLIENT_DIALECTS DEFAULT_DIALECT STORED_DIALECT WireFacts path_with
    choices        KNOBS DEFAULT_KNOBS DEFAULT_LIMITS DIRECTIONS
    profiles       BUILTIN_PROFILES VENDOR_PROFILES PROFILE_FIELDS
    errors         read_error for_client redact quote tidy is_secret is_public_parameter short_repr changed_fields
                   written_duration
    output caps    lower_cap
    token counts   TokenCounter TokenEstimate vocabulary_installed CountEndpoint COUNT_ENDPOINTS
                   AUDIO_TOKENS
    model lists    ListedModel ModelPage MODEL_LIST_PATH model_list_query read_model_list
                   ModelSizes documented_sizes
    service        ServiceReport
    prompt caches  PromptDigest PromptAgreement conversation_digest
    stages         Stage ReplyPipeline Event Violation ValidationSample
    forwarding     ForwardedEvents FormField boundary_of ResponseEnd read_end find_end
    WebSocket      ClientFrame RESPONSE_CREATE RESPONSE_STEER OutputItems join_items stream_id_tail error_frame
                   heartbeat_frame warm_up_frames steer_failed_frame

Some are imported when they are first used, as most gateways do not use them.
"""

from typing import TYPE_CHECKING

from dragoman.canonical.events import Event
from dragoman.canonical.request import EFFORTS
from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects import CLIENT_DIALECTS, COUNT_ENDPOINTS, DEFAULT_DIALECT, STORED_DIALECT
from dragoman.dialects.count_endpoint import CountEndpoint
from dragoman.dialects.directions import DIRECTIONS
from dragoman.dialects.errors.headers import written_duration
from dragoman.dialects.errors.own_key import for_client
from dragoman.dialects.errors.redact import is_public_parameter, is_secret, quote, redact, tidy
from dragoman.dialects.facts import WireFacts, path_with
from dragoman.dialects.http_errors import read_error
from dragoman.dialects.openai.endpoint_usage import AUDIO_TOKENS
from dragoman.dialects.shared.model_lists import (
    MODEL_LIST_PATH,
    ListedModel,
    ModelPage,
    model_list_query,
    read_model_list,
)
from dragoman.knobs import DEFAULT_KNOBS, KNOBS
from dragoman.lazy_names import lazy_names
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles.model_sizes import ModelSizes, documented_sizes
from dragoman.profiles.profile import BUILTIN_PROFILES, PROFILE_FIELDS, VENDOR_PROFILES
from dragoman.reply_context import ReplyOptions, StoredReply
from dragoman.short_repr import changed_fields, short_repr
from dragoman.stages.base import ReplyPipeline, Stage
from dragoman.stages.validation_sample import ValidationSample
from dragoman.stages.violation import Violation
from dragoman.translate_request import forward, parse_body
from dragoman.wire.json_edit import edit_members

if TYPE_CHECKING:
    from dragoman.dialects.common_prompt_prefix import PromptAgreement, PromptDigest, conversation_digest
    from dragoman.dialects.count_tokens import TokenCounter, TokenEstimate
    from dragoman.dialects.messages.request.output_cap import lower_cap
    from dragoman.dialects.openai.forwarded_events import ForwardedEvents
    from dragoman.dialects.responses.service import (
        RESPONSE_CREATE,
        RESPONSE_STEER,
        ClientFrame,
        OutputItems,
        ResponseEnd,
        error_frame,
        find_end,
        heartbeat_frame,
        join_items,
        read_end,
        steer_failed_frame,
        stream_id_tail,
        warm_up_frames,
    )
    from dragoman.tokens.by_vocabulary import vocabulary_installed
    from dragoman.wire.multipart import FormField, boundary_of
else:
    __getattr__ = lazy_names(
        globals(),
        {
            "dialects.common_prompt_prefix": "PromptAgreement PromptDigest conversation_digest",
            "dialects.count_tokens": "TokenCounter TokenEstimate",
            "dialects.messages.request.output_cap": "lower_cap",
            "dialects.openai.forwarded_events": "ForwardedEvents",
            "dialects.responses.service": (
                "RESPONSE_CREATE RESPONSE_STEER ClientFrame OutputItems ResponseEnd error_frame find_end "
                "heartbeat_frame join_items read_end steer_failed_frame stream_id_tail warm_up_frames"
            ),
            "tokens.by_vocabulary": "vocabulary_installed",
            "wire.multipart": "FormField boundary_of",
        },
    )

__all__ = (
    "AUDIO_TOKENS",
    "BUILTIN_PROFILES",
    "CLIENT_DIALECTS",
    "COUNT_ENDPOINTS",
    "DEFAULT_DIALECT",
    "DEFAULT_KNOBS",
    "DEFAULT_LIMITS",
    "DIRECTIONS",
    "EFFORTS",
    "KNOBS",
    "MODEL_LIST_PATH",
    "PROFILE_FIELDS",
    "RESPONSE_CREATE",
    "RESPONSE_STEER",
    "STORED_DIALECT",
    "VENDOR_PROFILES",
    "ClientFrame",
    "CountEndpoint",
    "Event",
    "FormField",
    "ForwardedEvents",
    "ListedModel",
    "ModelPage",
    "ModelSizes",
    "OutputItems",
    "PromptAgreement",
    "PromptDigest",
    "ReplyOptions",
    "ReplyPipeline",
    "ResponseEnd",
    "ServiceReport",
    "Stage",
    "StoredReply",
    "TokenCounter",
    "TokenEstimate",
    "ValidationSample",
    "Violation",
    "WireFacts",
    "boundary_of",
    "changed_fields",
    "conversation_digest",
    "documented_sizes",
    "edit_members",
    "error_frame",
    "find_end",
    "for_client",
    "forward",
    "heartbeat_frame",
    "is_public_parameter",
    "is_secret",
    "join_items",
    "lower_cap",
    "model_list_query",
    "parse_body",
    "path_with",
    "quote",
    "read_end",
    "read_error",
    "read_model_list",
    "redact",
    "short_repr",
    "steer_failed_frame",
    "stream_id_tail",
    "tidy",
    "vocabulary_installed",
    "warm_up_frames",
    "written_duration",
)
