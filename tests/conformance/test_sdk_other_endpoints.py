"""OpenAI's SDK on each endpoint that is forwarded without translation, over real sockets."""

from __future__ import annotations

from base64 import b64encode

import pytest
from openai import omit

from dragoman.dialects import Dialect
from dragoman_server.simulator.other_endpoints import AUDIO, DIMENSIONS, PNG, TRANSCRIPT
from support.forwarding import ALIAS, MODEL, forwarding

PIXEL = b64encode(PNG).decode()


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.RESPONSES], ids=str)
async def test_embeddings(dialect: Dialect) -> None:
    async with forwarding(dialect=dialect) as there:
        found = await there.sdk.embeddings.create(model=ALIAS, input=["one text", "another"])
        assert [len(each.embedding) for each in found.data] == [DIMENSIONS, DIMENSIONS]
        assert found.usage.prompt_tokens == 4
        assert there.received.path == "/v1/embeddings"
        assert there.received.body["model"] == MODEL
        plain = await there.sdk.embeddings.create(model=ALIAS, input="one text", encoding_format="float")
        assert plain.data[0].embedding == pytest.approx(found.data[0].embedding)


async def test_completions_whole_and_streamed() -> None:
    async with forwarding() as there:
        whole = await there.sdk.completions.create(model=ALIAS, prompt="Say hello")
        assert whole.choices[0].text == TRANSCRIPT
        assert whole.usage is not None
        assert whole.usage.completion_tokens == 4
        stream = await there.sdk.completions.create(
            model=ALIAS, prompt="Say hello", stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == TRANSCRIPT
        assert chunks[-1].usage == whole.usage


async def test_moderations_with_a_model_and_without() -> None:
    async with forwarding() as there:
        for model in (ALIAS, omit):
            checked = await there.sdk.moderations.create(model=model, input=["fine", "also fine"])
            assert [result.flagged for result in checked.results] == [False, False]
        assert [request.body.get("model") for request in there.requests] == [MODEL, None]


async def test_images_are_generated_whole_and_streamed() -> None:
    async with forwarding() as there:
        made = await there.sdk.images.generate(model=ALIAS, prompt="a pixel", n=2)
        assert [image.b64_json for image in made.data or ()] == [PIXEL, PIXEL]
        events = [event async for event in await there.sdk.images.generate(model=ALIAS, prompt="a", stream=True)]
        assert [event.type for event in events] == ["image_generation.partial_image", "image_generation.completed"]


async def test_images_are_edited_and_varied() -> None:
    async with forwarding() as there:
        several = [("a.png", PNG, "image/png"), ("b.png", PNG, "image/png")]
        edited = await there.sdk.images.edit(model=ALIAS, image=several, mask=("m.png", PNG), prompt="brighter")
        assert edited.data is not None
        assert edited.data[0].b64_json == PIXEL
        assert there.received.body["model"] == MODEL
        assert there.received.body["image[]"] == PNG
        assert there.received.body["mask"] == PNG
        with pytest.deprecated_call():  # of the SDK's method; the endpoint exists
            varied = await there.sdk.images.create_variation(image=("a.png", PNG))
        assert varied.data is not None
        assert varied.data[0].b64_json == PIXEL
        assert there.received.body == {"image": PNG}


@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
@pytest.mark.parametrize("size", [1000, 3_000_000])
async def test_audio_is_transcribed(size: int, transport: str) -> None:
    sound = AUDIO * (size // len(AUDIO) + 1)
    async with forwarding(transport=transport) as there:
        written = await there.sdk.audio.transcriptions.create(model=ALIAS, file=("talk.mp3", sound))
        assert written.text == TRANSCRIPT
        assert there.received.body == {"model": MODEL, "file": sound}
        text = await there.sdk.audio.transcriptions.create(model=ALIAS, file=sound, response_format="text")
        assert text == TRANSCRIPT + "\n"
        stream = await there.sdk.audio.transcriptions.create(model=ALIAS, file=("talk.mp3", sound), stream=True)
        events = [event async for event in stream]
        assert events[-1].type == "transcript.text.done"
        with pytest.deprecated_call():
            translated = await there.sdk.audio.translations.create(model=ALIAS, file=("talk.mp3", sound))
        assert translated.text == TRANSCRIPT


@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
async def test_speech_is_streamed_as_bytes(transport: str) -> None:
    async with forwarding(transport=transport) as there:
        speech = there.sdk.audio.speech
        async with speech.with_streaming_response.create(model=ALIAS, voice="alloy", input="Hello") as assistant_turn:
            assert assistant_turn.headers["content-type"] == "audio/mpeg"
            assert b"".join([piece async for piece in assistant_turn.iter_bytes(1000)]) == AUDIO
        whole = await speech.create(model=ALIAS, voice="alloy", input="Hello", stream_format="sse")
        assert b"speech.audio.done" in whole.content


async def test_rerank_has_no_method_in_the_sdk_but_its_client_can_post() -> None:
    async with forwarding() as there:
        body = {"model": ALIAS, "query": "red fish", "documents": ["a blue bird", "a red fish"]}
        found = await there.sdk.post("/rerank", cast_to=dict, body=body)
        assert [result["index"] for result in found["results"]] == [1, 0]
        assert there.received.body == {**body, "model": MODEL}
