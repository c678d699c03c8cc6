// Requests to the gateway. The key is in this tab only and goes into a header: there is no cookie that others could use.

import { SSEReader } from "./sse.js";

const ITEM = "dragoman-console-key";
let onKeyNeeded = () => {};

export const hasKey = () => sessionStorage.getItem(ITEM) !== null;
export const presentedKey = () => sessionStorage.getItem(ITEM);
export const setKey = (key) => sessionStorage.setItem(ITEM, key);
export const forgetKey = () => sessionStorage.removeItem(ITEM);
export const whenKeyNeeded = (callback) => { onKeyNeeded = callback; };

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// Paths are relative to the page, so that a prefix does not matter.
export async function request(path, options = {}) {
  const headers = new Headers(options.headers);
  const key = presentedKey();
  if (key !== null) headers.set("x-api-key", key);
  if (options.body !== undefined) headers.set("content-type", "application/json");
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The gateway does not answer. Is it still running?", 0);
  }
  if (!response.ok) {
    const error = new ApiError(await messageOf(response), response.status);
    if (response.status === 401) onKeyNeeded(error);
    throw error;
  }
  return response;
}

export const getJson = async (path, options) => (await request(path, options)).json();

async function messageOf(response) {
  const text = await response.text();
  try {
    const error = JSON.parse(text).error;
    return error.message ?? text;
  } catch {
    return text.slice(0, 500) || `The gateway answered with the status ${response.status}.`;
  }
}

// Calls onEvent(name, data) for each event, until the stream ends or the signal aborts.
export async function readEvents(response, onEvent) {
  const reader = new SSEReader(onEvent);
  const decoder = new TextDecoder();
  const source = response.body.getReader();
  for (;;) {
    const { done, value } = await source.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The connection to the gateway was lost.", 0);
    });
    if (done) return;
    reader.feed(decoder.decode(value, { stream: true }));
  }
}
