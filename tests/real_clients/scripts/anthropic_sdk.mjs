// Anthropic's SDK for Node: `messages.stream`, whole replies, and the tool runner of `beta.messages`.
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import {
  ABOUT, BASE, BROKEN, CUT, INTERLEAVED, LIMIT, LIMITED, OVERLOADED, PARALLEL, PROMPT, SCHEMA, SYSTEM, THINKS, failure, loop,
} from './report.mjs';

const client = new Anthropic({ baseURL: BASE, maxRetries: 0, timeout: 30_000 });
const HELLO = [{ role: 'user', content: PROMPT }];
const tools = [{ name: 'find_word', description: ABOUT, input_schema: SCHEMA }];

const request = (model, messages) => ({
  model,
  max_tokens: LIMIT,
  system: SYSTEM,
  messages,
  ...(model === THINKS ? { thinking: { type: 'enabled', budget_tokens: 1024 } } : {}),
});

const streamed = (model, messages) => client.messages.stream({ ...request(model, messages), tools }).finalMessage();
const whole = (model, messages) => client.messages.create({ ...request(model, messages), tools });

/** What a reply shows; its text replaces that of the one before. */
function add(shown, reply) {
  const of = (type, key) => reply.content.filter((block) => block.type === type).map((block) => block[key]).join('');
  shown.reasoning += of('thinking', 'thinking');
  shown.text = of('text', 'text');
  shown.input += reply.usage.input_tokens;
  shown.output += reply.usage.output_tokens;
}

/** The blocks go back as the SDK gave them, thinking included. */
async function byHand(ask, model, words) {
  const messages = [...HELLO];
  const shown = { text: '', reasoning: '', input: 0, output: 0 };
  for (let turn = 0; turn < 4; turn++) {
    const reply = await ask(model, messages);
    add(shown, reply);
    if (reply.stop_reason !== 'tool_use') return shown;
    const results = reply.content.filter((block) => block.type === 'tool_use').map((block) => (
      { type: 'tool_result', tool_use_id: block.id, content: words.find(block.input.topic) }));
    messages.push({ role: 'assistant', content: reply.content }, { role: 'user', content: results });
  }
  throw new Error('it never stops calling');
}

async function runner(model, words, stream) {
  const run = ({ topic }) => words.find(topic);
  const tool = betaTool({ name: 'find_word', description: ABOUT, inputSchema: SCHEMA, run });
  const shown = { text: '', reasoning: '', input: 0, output: 0 };
  for await (const turn of client.beta.messages.toolRunner({ ...request(model, HELLO), tools: [tool], stream })) {
    add(shown, stream ? await turn.finalMessage() : turn);
  }
  return shown;
}

await loop('streamed', (words) => byHand(streamed, THINKS, words));
await loop('parallel', (words) => byHand(streamed, PARALLEL, words));
await loop('interleaved', (words) => byHand(streamed, INTERLEAVED, words));
await loop('whole', (words) => byHand(whole, THINKS, words));
await loop('runner', (words) => runner(THINKS, words, true));
await loop('parallel runner', (words) => runner(PARALLEL, words, true));
await loop('whole runner', (words) => runner(THINKS, words, false));
await failure('limited', () => whole(LIMITED, HELLO));
await failure('overloaded', () => streamed(OVERLOADED, HELLO));
await failure('broken', () => streamed(BROKEN, HELLO));
await failure('cut', () => streamed(CUT, HELLO));
