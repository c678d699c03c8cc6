// openai-agents for Node: `run` over Responses or Chat, streamed and whole.
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled, tool } from '@openai/agents';
import OpenAI from 'openai';
import {
  ABOUT, BASE, BROKEN, CUT, INTERLEAVED, LIMIT, LIMITED, OVERLOADED, PARALLEL, PROMPT, SCHEMA, SYSTEM, THINKS, VARIANT,
  failure, loop,
} from './report.mjs';

setTracingDisabled(true);
const client = new OpenAI({ baseURL: `${BASE}/v1`, maxRetries: 0, timeout: 30_000 });
const Model = { chat: OpenAIChatCompletionsModel, responses: OpenAIResponsesModel }[VARIANT];

/** By default it sends reasoning back without what is encrypted: the server is to know it by its id. */
const STATELESS = { store: false, providerData: { include: ['reasoning.encrypted_content'] } };

async function play(name, words, stream, settings = {}) {
  const agent = new Agent({
    name: 'Assistant',
    instructions: SYSTEM,
    model: new Model(client, name),
    modelSettings: {
      maxTokens: LIMIT,
      ...(VARIANT === 'responses' ? { reasoning: { effort: 'medium', summary: 'auto' } } : {}),
      ...settings,
    },
    tools: [
      tool({
        name: 'find_word', description: ABOUT, parameters: SCHEMA, strict: true,
        execute: async ({ topic }) => words.find(topic),
        errorFunction: null,
      }),
    ],
  });
  const result = await run(agent, PROMPT, { stream, maxTurns: 4 });
  if (stream) {
    for await (const _ of result);
    await result.completed;
    if (result.error) throw result.error;
  }
  const thoughts = result.newItems.filter((item) => item.type === 'reasoning_item').map((item) => item.rawItem);
  const reasoning = thoughts.flatMap((item) => [...item.content, ...(item.rawContent ?? [])]).map((part) => part.text);
  const { usage } = result.state;
  return {
    text: result.finalOutput, reasoning: reasoning.join(''), input: usage.inputTokens, output: usage.outputTokens,
  };
}

await loop('streamed', (words) => play(THINKS, words, true));
await loop('parallel', (words) => play(PARALLEL, words, true));
await loop('interleaved', (words) => play(INTERLEAVED, words, true));
if (VARIANT === 'responses') {
  await loop('whole', (words) => play(THINKS, words, false));
  await loop('stateless', (words) => play(THINKS, words, true, STATELESS));
}
await failure('limited', () => play(LIMITED, null, false));
await failure('overloaded', () => play(OVERLOADED, null, true));
await failure('broken', () => play(BROKEN, null, true));
await failure('cut', () => play(CUT, null, true));
