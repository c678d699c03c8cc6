"""Table of the values that servers put into an error's `type` or `code`, with their meaning and source.

A value that several servers use is listed under the one that documents it. Values that only repeat the HTTP status are
listed too, because an error inside a stream has no other status. `chat §11` and the like are sections of the pages in
docs/reference; "SDK" means the vendors' own, as installed with the tests.
"""

from __future__ import annotations

from dragoman.errors import FailureKind

_K = FailureKind

_OPENAI: tuple[tuple[FailureKind, int, str], ...] = (
    # chat §11; responses §7 and §9; the SDK's `ResponseError` and `SessionTurnError`.
    (_K.CONTEXT_LENGTH, 400, "context_length_exceeded"),
    (_K.BILLING, 429, "insufficient_quota credit_balance_exhausted billing_not_active usage_not_included"),
    (_K.BILLING, 429, "project_spend_limit_exceeded organization_spend_limit_exceeded"),
    (_K.BILLING, 429, "organization_usage_limit_exceeded"),
    (_K.BILLING, 429, "billing_hard_limit_reached"),  # the image endpoint's, in many public reports
    (_K.POLICY, 400, "content_filter invalid_prompt moderation_blocked bio_policy cyber_policy"),
    (_K.POLICY, 400, "misalignment_policy_violation"),
    (_K.AUTHENTICATION, 401, "invalid_api_key"),
    (_K.PERMISSION, 403, "unsupported_country_region_territory"),  # public reports, with 403 `request_forbidden`
    (_K.NOT_FOUND, 404, "model_not_found"),
    (_K.RATE_LIMIT, 429, "rate_limit_exceeded requests tokens"),
    (_K.OVERLOADED, 503, "server_is_overloaded server_overloaded slow_down service_unavailable_error"),
    (_K.TIMEOUT, 504, "request_timeout vector_store_timeout"),
    (_K.API, 500, "server_error internal_error"),
    (_K.INVALID_REQUEST, 400, "invalid_request_error unsupported_parameter unsupported_value string_above_max_length"),
    (_K.INVALID_REQUEST, 400, "data_residency_mismatch invalid_image invalid_image_format invalid_base64_image"),
    (_K.INVALID_REQUEST, 400, "invalid_image_url image_too_large image_too_small image_parse_error"),
    (_K.INVALID_REQUEST, 400, "image_content_policy_violation invalid_image_mode image_file_too_large"),
    (_K.INVALID_REQUEST, 400, "unsupported_image_media_type empty_image_file failed_to_download_image"),
    (_K.INVALID_REQUEST, 400, "image_file_not_found"),
)
_ANTHROPIC: tuple[tuple[FailureKind, int, str], ...] = (
    # messages §11; the SDK's `ErrorType`.
    (_K.BILLING, 402, "billing_error"),
    (_K.AUTHENTICATION, 401, "authentication_error"),
    (_K.PERMISSION, 403, "permission_error"),
    (_K.NOT_FOUND, 404, "not_found_error"),
    (_K.CONFLICT, 409, "conflict_error"),
    (_K.TOO_LARGE, 413, "request_too_large"),
    (_K.RATE_LIMIT, 429, "rate_limit_error"),
    (_K.OVERLOADED, 503, "overloaded_error"),
    (_K.TIMEOUT, 504, "timeout_error"),
    (_K.API, 500, "api_error"),
)
_OTHERS: tuple[tuple[FailureKind, int, str], ...] = (
    # OpenRouter, `error.metadata.error_type`: openrouter.ai/docs/client-sdks/python/components/apierrortype
    (_K.BILLING, 402, "payment_required"),
    (_K.POLICY, 400, "content_policy_violation"),
    (_K.AUTHENTICATION, 401, "authentication"),
    (_K.TOO_LARGE, 413, "payload_too_large"),
    (_K.OVERLOADED, 503, "provider_overloaded provider_unavailable"),
    (_K.TIMEOUT, 504, "timeout"),
    (_K.API, 500, "server"),
    (_K.INVALID_REQUEST, 400, "invalid_request unprocessable"),
    # Moonshot: its table of errors, as quoted by many public clients
    (_K.BILLING, 429, "exceeded_current_quota_error"),
    (_K.AUTHENTICATION, 401, "invalid_authentication_error"),
    (_K.PERMISSION, 403, "permission_denied_error"),
    (_K.NOT_FOUND, 404, "resource_not_found_error"),
    (_K.RATE_LIMIT, 429, "rate_limit_reached_error"),
    (_K.OVERLOADED, 503, "engine_overloaded_error"),
    # DashScope: alibabacloud.com/help/en/model-studio/error-code
    (_K.BILLING, 400, "arrearage"),
    (_K.POLICY, 400, "data_inspection_failed datainspectionfailed"),
    (_K.RATE_LIMIT, 429, "throttling throttling.ratequota throttling.allocationquota"),
    # LiteLLM: `ProxyErrorTypes` in litellm/proxy/_types.py, and its exceptions' `type`
    (_K.BILLING, 429, "budget_exceeded"),
    (_K.AUTHENTICATION, 401, "auth_error"),
    (_K.RATE_LIMIT, 429, "throttling_error"),
    (_K.INVALID_REQUEST, 400, "bad_request_error"),
    # llama.cpp: `format_error_response` of its server
    (_K.CONTEXT_LENGTH, 400, "exceed_context_size_error"),
    (_K.OVERLOADED, 503, "unavailable_error"),
    # Copilot: recorded by public proxies, with "prompt token count of N exceeds the limit of M"
    (_K.CONTEXT_LENGTH, 400, "model_max_prompt_tokens_exceeded"),
    # Azure: for a deployment that does not exist, in many public reports
    (_K.NOT_FOUND, 404, "deploymentnotfound"),
    # Bedrock: the name of the AWS exception, in `__type`
    (_K.RATE_LIMIT, 429, "throttlingexception"),
    # Google: `google.rpc.Code`, and `google.api.ErrorReason`
    (_K.AUTHENTICATION, 401, "unauthenticated api_key_invalid"),
    (_K.PERMISSION, 403, "permission_denied"),
    (_K.BILLING, 403, "billing_disabled"),
    (_K.RATE_LIMIT, 429, "resource_exhausted"),
    (_K.OVERLOADED, 503, "unavailable"),
    (_K.TIMEOUT, 504, "deadline_exceeded"),
    (_K.API, 500, "internal"),
    (_K.INVALID_REQUEST, 400, "invalid_argument failed_precondition"),
    # vLLM and its descendants put the names of the SDKs' exception classes there: vllm/entrypoints/openai, `err_type=`
    (_K.AUTHENTICATION, 401, "authenticationerror"),
    (_K.PERMISSION, 403, "permissiondeniederror"),
    (_K.NOT_FOUND, 404, "notfounderror"),
    (_K.CONFLICT, 409, "conflicterror"),
    (_K.RATE_LIMIT, 429, "ratelimiterror"),
    (_K.OVERLOADED, 503, "serviceunavailableerror"),
    (_K.API, 500, "internalservererror"),
    (_K.INVALID_REQUEST, 400, "badrequesterror unprocessableentityerror"),
    # Web frameworks, and vLLM for errors that it does not raise itself, put the HTTP reason phrase there: RFC 9110 §15
    (_K.AUTHENTICATION, 401, "unauthorized"),
    (_K.PERMISSION, 403, "forbidden"),
    (_K.NOT_FOUND, 404, "not_found"),
    (_K.RATE_LIMIT, 429, "too_many_requests"),
    (_K.OVERLOADED, 503, "service_unavailable"),
    (_K.TIMEOUT, 504, "gateway_timeout"),
    (_K.API, 500, "internal_server_error"),
    (_K.API, 502, "bad_gateway"),
    (_K.INVALID_REQUEST, 400, "bad_request unprocessable_entity"),
    # Another Dragoman in front: the codes of `dragoman.errors` for failures of its upstream
    (_K.API, 502, "stream_truncated upstream_protocol upstream_unreachable"),
)

IMPLIED: dict[str, tuple[FailureKind, int]] = {
    word: (kind, status) for kind, status, words in (*_OPENAI, *_ANTHROPIC, *_OTHERS) for word in words.split()
}
"""Type or code in lower case → the kind of failure, and the status for an error that came without one."""
