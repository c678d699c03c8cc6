// Vercel's AI SDK: `streamText` and `generateText` over one of its providers.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, isStepCount, jsonSchema, streamText, tool } from 'ai';
import {
  ABOUT, BASE, BROKEN, CUT, INTERLEAVED, LIMITED, OVERLOADED, PARALLEL, PROMPT, SCHEMA, SYSTEM, THINKS, VARIANT, failure,
  loop,
} from './report.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const baseURL = `${BASE}/v1`;
const openai = createOpenAI({ baseURL });
const apiKey = process.env.OPENAI_API_KEY;
const models = {
  chat: (name) => openai.chat(name),
  responses: (name) => openai(name),
  stateless: (name) => openai(name),
  messages: (name) => createAnthropic({ baseURL })(name),
  compatible: (name) => createOpenAICompatible({ name: 'gateway', baseURL, apiKey, includeUsage: true })(name),
};

/** What makes a provider show reasoning; `chat` and `responses` have the defaults alone. */
const options = (name) => ({
  stateless: {
    openai: { store: false, include: ['reasoning.encrypted_content'], reasoningEffort: 'medium', reasoningSummary: 'auto' },
  },
  messages: name === THINKS ? { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } } : {},
  compatible: { gateway: { reasoningEffort: 'medium' } },
})[VARIANT];

const request = (name, words) => ({
  model: models[VARIANT](name),
  instructions: SYSTEM,
  prompt: PROMPT,
  tools: {
    find_word: tool({
      description: ABOUT, inputSchema: jsonSchema(SCHEMA), execute: async ({ topic }) => words.find(topic),
    }),
  },
  stopWhen: isStepCount(4),
  providerOptions: options(name),
});

async function streamed(name, words, more) {
  const result = streamText({ ...request(name, words), ...more, onError: () => {} });
  let reasoning = '';
  for await (const part of result.stream) {
    if (part.type === 'reasoning-delta') reasoning += part.text;
    if (part.type === 'error') throw part.error;
  }
  const usage = await result.totalUsage;
  return { text: await result.text, reasoning, input: usage.inputTokens, output: usage.outputTokens };
}

async function whole(name, words, more) {
  const result = await generateText({ ...request(name, words), ...more });
  const reasoning = result.steps.map((step) => step.reasoningText ?? '').join('');
  const usage = result.totalUsage;
  return { text: result.text, reasoning, input: usage.inputTokens, output: usage.outputTokens };
}

await loop('streamed', (words) => streamed(THINKS, words));
await loop('parallel', (words) => streamed(PARALLEL, words));
await loop('interleaved', (words) => streamed(INTERLEAVED, words));
await loop('whole', (words) => whole(THINKS, words));
const once = { maxRetries: 0 };
await failure('limited', () => whole(LIMITED, null, once));
await failure('overloaded', () => streamed(OVERLOADED, null, once));
await failure('broken', () => streamed(BROKEN, null, once));
await failure('cut', () => streamed(CUT, null, once));
