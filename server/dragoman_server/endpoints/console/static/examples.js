// Requests to start from, in each API.

export const PATHS = { chat: "chat/completions", messages: "messages", responses: "responses" };

const SCHEMA = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const ABOUT = "The weather in a city";
const HELLO = [{ role: "user", content: "Hello!" }];
const WEATHER = [{ role: "user", content: "How is the weather in Oslo?" }];

export const EXAMPLES = {
  chat: {
    text: { stream: true, messages: HELLO },
    tool: { stream: true, messages: WEATHER, tools: [{ type: "function", function: { name: "get_weather", description: ABOUT, parameters: SCHEMA } }] },
    loss: { stream: true, seed: 7, frequency_penalty: 0.5, logit_bias: { 50256: -100 }, messages: HELLO },
  },
  messages: {
    text: { max_tokens: 500, stream: true, system: "Be brief.", messages: HELLO },
    tool: { max_tokens: 500, stream: true, messages: WEATHER, tools: [{ name: "get_weather", description: ABOUT, input_schema: SCHEMA }] },
    loss: { max_tokens: 500, stream: true, top_k: 40, system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }], messages: HELLO },
  },
  responses: {
    text: { stream: true, instructions: "Be brief.", input: "Hello!" },
    tool: { stream: true, input: "How is the weather in Oslo?", tools: [{ type: "function", name: "get_weather", description: ABOUT, parameters: SCHEMA, strict: false }] },
    loss: { stream: true, truncation: "auto", background: false, prompt_cache_retention: "24h", metadata: { team: "docs" }, input: "Hello!" },
  },
};
