// Vercel's AI SDK: `streamText` and `generateText` over one of its providers.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import {
  ABOUT, BASE, BROKEN, CUT, INTERLEAVED, LIMIT, LIMITED, OVERLOADED, PARALLEL, PROMPT, SCHEMA, SYSTEM, THINKS, VARIANT,
  failure, loop,
} from './report.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const baseURL = `${BASE}/v1`;
const openai = createOpenAI({ baseURL });
const apiKey = process.env.OPENAI_API_KEY;
const models = {
  chat: (name) => openai.chat(name),
  responses: (name) => openai.responses(name),
  messages: (name) => createAnthropic({ baseURL })(name),
  compatible: (name) => createOpenAICompatible({ name: 'gateway', baseURL, apiKey, includeUsage: true })(name),
};

const options = (name) => ({
  chat: {},
  responses: {
    openai: { store: false, include: ['reasoning.encrypted_content'], reasoningEffort: 'medium', reasoningSummary: 'auto' },
  },
  messages: name === THINKS ? { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } } : {},
  compatible: { gateway: { reasoningEffort: 'medium' } },
})[VARIANT];

const request = (name, words) => ({
  model: models[VARIANT](name),
  system: SYSTEM,
  prompt: PROMPT,
  tools: {
    find_word: tool({
      description: ABOUT, inputSchema: jsonSchema(SCHEMA), execute: async ({ topic }) => words.find(topic),
    }),
  },
  stopWhen: stepCountIs(4),
  maxOutputTokens: LIMIT,
  maxRetries: 0,
  providerOptions: options(name),
});

/** An `error` part whose error is what the server sent, no exception. */
class StreamedError extends Error {
  constructor({ message }) {
    super(message);
  }
}

async function streamed(name, words) {
  const result = streamText({ ...request(name, words), onError: () => {} });
  let reasoning = '';
  for await (const part of result.fullStream) {
    if (part.type === 'reasoning-delta') reasoning += part.text;
    if (part.type === 'error') throw part.error instanceof Error ? part.error : new StreamedError(part.error);
  }
  const usage = await result.totalUsage;
  return { text: await result.text, reasoning, input: usage.inputTokens, output: usage.outputTokens };
}

async function whole(name, words) {
  const result = await generateText(request(name, words));
  const reasoning = result.steps.map((step) => step.reasoningText ?? '').join('');
  const usage = result.totalUsage;
  return { text: result.text, reasoning, input: usage.inputTokens, output: usage.outputTokens };
}

await loop('streamed', (words) => streamed(THINKS, words));
await loop('parallel', (words) => streamed(PARALLEL, words));
await loop('interleaved', (words) => streamed(INTERLEAVED, words));
await loop('whole', (words) => whole(THINKS, words));
await failure('limited', () => whole(LIMITED));
await failure('overloaded', () => streamed(OVERLOADED));
await failure('broken', () => streamed(BROKEN));
await failure('cut', () => streamed(CUT));
