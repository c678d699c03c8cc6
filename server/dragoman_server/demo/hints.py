"""What to try next, ready to be pasted."""

from __future__ import annotations


def hints(url: str) -> list[str]:
    """Lines for a gateway at `url` that has the simulated upstream behind it."""
    hello = '"messages":[{"role":"user","content":"Hello!"}]'
    return [
        f"The gateway stays up at {url}. From another terminal:",
        "",
        "# as an Anthropic client (the upstream speaks Chat), as an OpenAI client (Messages)",
        f"curl -N {url}/v1/messages -H 'content-type: application/json' \\",
        f"""  -d '{{"model":"sim-thinking","max_tokens":500,"stream":true,{hello}}}'""",
        f"curl -N {url}/v1/chat/completions -H 'content-type: application/json' \\",
        f"""  -d '{{"model":"sim-parallel","stream":true,{hello}}}'""",
        "",
        "# the SDKs, in Python (pip install anthropic openai)",
        f'import anthropic; client = anthropic.Anthropic(base_url="{url}", api_key="any")',
        'print(client.messages.create(model="sim-text", max_tokens=500,',
        '    messages=[{"role": "user", "content": "Hello!"}]).content[0].text)',
        f'import openai; client = openai.OpenAI(base_url="{url}/v1", api_key="any")',
        'print(client.chat.completions.create(model="sim-text",',
        '    messages=[{"role": "user", "content": "Hello!"}]).choices[0].message.content)',
        "",
        "# Claude Code, with the simulated model (which says back what it is sent)",
        f"ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=any claude --model sim-text",
        "",
        "# your own model instead of the simulated one: any OpenAI-compatible server",
        "dragoman serve --base-url http://127.0.0.1:11434/v1",
        "",
    ]
