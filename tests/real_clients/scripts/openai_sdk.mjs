// OpenAI's SDK for Node: `chat.completions` or `responses`, by hand, with its tool runners, and as whole replies.
import OpenAI from 'openai';
import { ResponsesToolRunner } from 'openai/helpers/responses-tool-runner';
import {
  ABOUT, BASE, BROKEN, CUT, INTERLEAVED, LIMIT, LIMITED, OVERLOADED, PARALLEL, PROMPT, SCHEMA, SYSTEM, THINKS, VARIANT,
  failure, loop,
} from './report.mjs';

const client = new OpenAI({ baseURL: `${BASE}/v1`, maxRetries: 0, timeout: 30_000 });
const DECLARED = { name: 'find_word', description: ABOUT, parameters: SCHEMA, strict: true };
// The Chat helper takes a strict call for whole when the next one begins: it cannot read them side by side.
const declaredFor = (model) => ({ ...DECLARED, strict: model !== INTERLEAVED });
const HELLO = [{ role: 'user', content: PROMPT }];

const chatRequest = (model, messages) => ({
  model,
  messages,
  max_completion_tokens: LIMIT,
  tools: [{ type: 'function', function: declaredFor(model) }],
});

async function chatStreamed(model, messages) {
  const stream = client.chat.completions.stream({
    ...chatRequest(model, messages),
    stream_options: { include_usage: true },
  });
  let thinking = '';
  stream.on('chunk', (chunk) => (thinking += chunk.choices[0]?.delta.reasoning_content ?? ''));
  return [await stream.finalChatCompletion(), thinking];
}

async function chatWhole(model, messages) {
  const reply = await client.chat.completions.create(chatRequest(model, messages));
  return [reply, reply.choices[0].message.reasoning_content ?? ''];
}

/** The assistant's message goes back as the SDK gave it, less what only its streaming helper adds. */
async function chatLoop(ask, model, words) {
  const messages = [{ role: 'developer', content: SYSTEM }, ...HELLO];
  const shown = { text: '', reasoning: '', input: 0, output: 0 };
  for (let turn = 0; turn < 4; turn++) {
    const [reply, thinking] = await ask(model, messages);
    const { message, finish_reason: reason } = reply.choices[0];
    shown.reasoning += thinking;
    shown.input += reply.usage.prompt_tokens;
    shown.output += reply.usage.completion_tokens;
    if (reason !== 'tool_calls') return { ...shown, text: message.content };
    const calls = message.tool_calls.map(({ id, type, function: { name, arguments: input } }) => (
      { id, type, function: { name, arguments: input } }));
    messages.push({ role: 'assistant', content: message.content, tool_calls: calls });
    for (const call of calls) {
      const found = words.find(JSON.parse(call.function.arguments).topic);
      messages.push({ role: 'tool', tool_call_id: call.id, content: found });
    }
  }
  throw new Error('it never stops calling');
}

async function chatRunner(model, words, stream) {
  const called = ({ topic }) => words.find(topic);
  const runner = client.chat.completions.runTools({
    model,
    messages: [{ role: 'system', content: SYSTEM }, ...HELLO],
    max_completion_tokens: LIMIT,
    tools: [{ type: 'function', function: { ...declaredFor(model), parse: JSON.parse, function: called } }],
    ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  });
  let thinking = '';
  if (stream) runner.on('chunk', (chunk) => (thinking += chunk.choices[0]?.delta.reasoning_content ?? ''));
  else runner.on('message', (message) => (thinking += message.reasoning_content ?? ''));
  const text = await runner.finalContent();
  const usage = await runner.totalUsage();
  return { text, reasoning: thinking, input: usage.prompt_tokens, output: usage.completion_tokens };
}

async function chat() {
  await loop('streamed', (words) => chatLoop(chatStreamed, THINKS, words));
  await loop('parallel', (words) => chatLoop(chatStreamed, PARALLEL, words));
  await loop('interleaved', (words) => chatLoop(chatStreamed, INTERLEAVED, words));
  await loop('whole', (words) => chatLoop(chatWhole, THINKS, words));
  await loop('runner', (words) => chatRunner(THINKS, words, true));
  await loop('parallel runner', (words) => chatRunner(PARALLEL, words, true));
  await loop('whole runner', (words) => chatRunner(THINKS, words, false));
  await failure('limited', () => chatWhole(LIMITED, HELLO));
  await failure('overloaded', () => chatStreamed(OVERLOADED, HELLO));
  await failure('broken', () => chatStreamed(BROKEN, HELLO));
  await failure('cut', () => chatStreamed(CUT, HELLO));
}

const responsesRequest = (model, input) => ({
  model,
  input,
  instructions: SYSTEM,
  max_output_tokens: LIMIT,
  store: false,
  include: ['reasoning.encrypted_content'],
  reasoning: { effort: 'medium', summary: 'auto' },
});
const tools = [{ type: 'function', ...DECLARED }];

async function responsesStreamed(model, input) {
  const stream = client.responses.stream({ ...responsesRequest(model, input), tools });
  let failed;
  for await (const event of stream) if (event.type === 'response.failed') failed = event.response.error;
  // The helper ends a failed stream as if it were whole: it is the caller who looks at the status.
  const reply = await stream.finalResponse();
  if (reply.status === 'failed') throw Object.assign(new OpenAI.OpenAIError(failed.message), { reply });
  return reply;
}

const responsesWhole = (model, input) => client.responses.create({ ...responsesRequest(model, input), tools });

/** What a reply shows of thinking and usage; its text replaces that of the one before. */
function add(shown, reply) {
  for (const item of reply.output) {
    if (item.type === 'reasoning') {
      shown.reasoning += [...item.summary, ...(item.content ?? [])].map((part) => part.text).join('');
    }
  }
  shown.text = reply.output_text;
  shown.input += reply.usage.input_tokens;
  shown.output += reply.usage.output_tokens;
}

/** The output items go back as the SDK gave them, reasoning included. */
async function responsesLoop(ask, model, words) {
  const input = [...HELLO];
  const shown = { text: '', reasoning: '', input: 0, output: 0 };
  for (let turn = 0; turn < 4; turn++) {
    const reply = await ask(model, input);
    add(shown, reply);
    const calls = reply.output.filter((item) => item.type === 'function_call');
    if (!calls.length) return shown;
    for (const { parsed_arguments, ...item } of reply.output) input.push(item);
    for (const call of calls) {
      const output = words.find(JSON.parse(call.arguments).topic);
      input.push({ type: 'function_call_output', call_id: call.call_id, output });
    }
  }
  throw new Error('it never stops calling');
}

async function responsesRunner(model, words, stream) {
  const functions = [{ tool: tools[0], execute: ({ topic }) => words.find(topic) }];
  const shown = { text: '', reasoning: '', input: 0, output: 0 };
  for await (const turn of new ResponsesToolRunner({ functions }).iterate(
    client, responsesRequest(model, HELLO), { stream },
  )) add(shown, turn.response);
  return shown;
}

async function responses() {
  await loop('streamed', (words) => responsesLoop(responsesStreamed, THINKS, words));
  await loop('parallel', (words) => responsesLoop(responsesStreamed, PARALLEL, words));
  await loop('interleaved', (words) => responsesLoop(responsesStreamed, INTERLEAVED, words));
  await loop('whole', (words) => responsesLoop(responsesWhole, THINKS, words));
  await loop('runner', (words) => responsesRunner(THINKS, words, true));
  await loop('parallel runner', (words) => responsesRunner(PARALLEL, words, true));
  await loop('whole runner', (words) => responsesRunner(THINKS, words, false));
  await failure('limited', () => responsesWhole(LIMITED, HELLO));
  await failure('overloaded', () => responsesStreamed(OVERLOADED, HELLO));
  await failure('broken', () => responsesStreamed(BROKEN, HELLO));
  await failure('cut', () => responsesStreamed(CUT, HELLO));
}

await { chat, responses }[VARIANT]();
