"""Commands to try after the demo, ready to be pasted."""

from __future__ import annotations


def next_steps(url: str) -> list[str]:
    """Return the lines to print for a gateway at `url` that uses the simulated upstream."""
    hello = '"messages":[{"role":"user","content":"Hello!"}]'
    json = "-H 'content-type: application/json'"
    return [
        f"The console shows its traffic, and what each request lost: {url}/ui",
        "",
        f"The gateway serves on at {url}. From another terminal:",
        "",
        "# as an Anthropic client (with a Chat upstream), and by both of OpenAI's APIs (with a Messages upstream)",
        f"curl -N {url}/v1/messages {json} \\",
        f"""  -d '{{"model":"sim-thinking","max_tokens":500,"stream":true,{hello}}}'""",
        f"curl -N {url}/v1/chat/completions {json} \\",
        f"""  -d '{{"model":"sim-parallel","stream":true,{hello}}}'""",
        f"curl -N {url}/v1/responses {json} \\",
        """  -d '{"model":"sim-thinking","stream":true,"input":"Hello!"}'""",
        "",
        "# the same models by any of the three: chat/…, messages/… and responses/… select the upstream's API",
        f"curl -N {url}/v1/chat/completions {json} \\",
        f"""  -d '{{"model":"responses/sim-text","stream":true,{hello}}}'""",
        "",
        "# the upstream request for a request, and its losses, without sending it",
        f"curl '{url}/v1/dragoman/explain?from=messages&to=chat' {json} \\",
        f"""  -d '{{"model":"sim-text","max_tokens":500,"top_k":40,{hello}}}'""",
        "",
        "# the SDKs, in Python (pip install anthropic openai)",
        f'import anthropic; client = anthropic.Anthropic(base_url="{url}", api_key="any")',
        'print(client.messages.create(model="sim-text", max_tokens=500,',
        '    messages=[{"role": "user", "content": "Hello!"}]).content[0].text)',
        f'import openai; client = openai.OpenAI(base_url="{url}/v1", api_key="any")',
        'print(client.responses.create(model="sim-text", input="Hello!").output_text)',
        "",
        "# Claude Code and Codex, with the simulated model (which repeats the last message)",
        f"ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=any claude --model sim-text",
        f"""codex -m sim-text -c model_provider=gw -c 'model_providers.gw={{name="gw",base_url="{url}/v1"}}'""",
        "",
        "# your own model instead of the simulated one: any OpenAI-compatible server",
        "dragoman serve --base-url http://127.0.0.1:11434/v1",
        "",
    ]
