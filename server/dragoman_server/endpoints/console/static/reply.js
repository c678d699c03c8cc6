// The reply of a model, assembled from the events of a stream in any of the three APIs, or from a whole reply.

const KINDS = {
  reasoning_content: "reasoning", reasoning: "reasoning", content: "text", refusal: "refusal",
  text_delta: "text", thinking_delta: "reasoning", input_json_delta: "call",
  "response.output_text.delta": "text", "response.refusal.delta": "refusal", "response.reasoning_text.delta": "reasoning",
  "response.reasoning_summary_text.delta": "reasoning", "response.function_call_arguments.delta": "call", "response.custom_tool_call_input.delta": "call",
};

export class Reply {
  #add;
  #end;
  #names = {}; // of calls, by their places

  // `add(place, kind, name, text)` gets each piece: those of one place belong together. `end(word, usage)` gets the reason
  // of the end, or an error, and the token counts; each may be null.
  constructor(add, end) {
    this.#add = add;
    this.#end = end;
  }

  event(data) {
    let value;
    try {
      value = JSON.parse(data);
    } catch {
      return; // such as [DONE]
    }
    if (value?.error) this.#end(`error: ${value.error.message ?? value.error.type ?? ""}`, null);
    else if (value?.type === "error") this.#end(`error: ${value.message ?? ""}`, null);
    else if (Array.isArray(value?.choices)) this.#chunk(value, "delta");
    else if (value?.type?.startsWith("response.")) this.#response(value);
    else if (value?.type) this.#message(value);
  }

  whole(value) {
    if (value.error) this.#end(`error: ${value.error.message ?? ""}`, null);
    else if (Array.isArray(value.choices)) this.#chunk(value, "message");
    else if (Array.isArray(value.output)) {
      value.output.forEach((item, at) => this.#item(at, item, true));
      this.#end(value.status, value.usage);
    } else if (Array.isArray(value.content)) {
      value.content.forEach((block, index) => this.#block(index, block));
      this.#end(value.stop_reason, value.usage);
    }
  }

  #chunk({ choices, usage }, member) {
    for (const { index, [member]: part, finish_reason: reason } of choices) {
      for (const [name, text] of Object.entries(part ?? {})) {
        if (KINDS[name] && typeof text === "string" && text) this.#add(`${index} ${KINDS[name]}`, KINDS[name], "", text);
      }
      (part?.tool_calls ?? []).forEach((call, at) => {
        const called = call.function ?? call.custom ?? {};
        this.#call(`${index} call ${call.index ?? at}`, called.name, called.arguments ?? called.input ?? "");
      });
      if (reason) this.#end(reason, null);
    }
    if (usage) this.#end(null, usage);
  }

  #message({ type, index, content_block: block, delta, message, usage }) {
    if (type === "message_start") this.#end(null, message.usage);
    else if (type === "content_block_start") this.#block(index, block, true);
    else if (type === "content_block_delta") {
      const text = delta.text ?? delta.thinking ?? delta.partial_json;
      if (text && KINDS[delta.type]) this.#add(String(index), KINDS[delta.type], this.#names[index] ?? "", text);
    } else if (type === "message_delta") this.#end(delta.stop_reason, usage);
  }

  // The input of a block that begins a stream is empty: its text follows.
  #block(index, block, isBegun = false) {
    if (block.name) this.#call(String(index), block.name, isBegun ? "" : JSON.stringify(block.input ?? {}));
    else if (block.text) this.#add(String(index), "text", "", block.text);
    else if (block.thinking) this.#add(String(index), "reasoning", "", block.thinking);
  }

  #response({ type, output_index: at, content_index: part, summary_index: summary, item, delta, response }) {
    if (type === "response.output_item.added") this.#item(at, item, false);
    else if (KINDS[type]) {
      const place = KINDS[type] === "call" ? String(at) : `${at} ${part ?? ""} ${summary ?? ""}`;
      this.#add(place, KINDS[type], this.#names[at] ?? "", delta);
    } else if (["response.completed", "response.incomplete", "response.failed"].includes(type)) {
      this.#end(response.error?.message ?? response.incomplete_details?.reason ?? response.status, response.usage);
    }
  }

  #item(at, item, isWhole) {
    if (item.name) this.#call(String(at), item.name, isWhole ? (item.arguments ?? item.input ?? "") : "");
    else if (isWhole) {
      for (const [place, part] of [...(item.summary ?? []), ...(item.content ?? [])].entries()) {
        const kind = item.type === "reasoning" ? "reasoning" : part.refusal ? "refusal" : "text";
        this.#add(`${at} ${place}`, kind, "", part.text ?? part.refusal ?? "");
      }
    }
  }

  #call(place, name, text) {
    if (name) this.#names[place] = name;
    this.#add(place, "call", this.#names[place] ?? "", text);
  }
}
