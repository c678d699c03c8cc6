// The button that records the next streams, and the number of those that are still to come.

import { request } from "./api.js";
import { byId, number, setText } from "./dom.js";

const COUNT = 5;
let remaining = 0;

export function listen(onError) {
  byId("record").addEventListener("click", async () => {
    try {
      const count = remaining ? 0 : COUNT;
      await request(`api/record?count=${count}`, { method: "POST" });
      show(count);
    } catch (error) {
      onError(error);
    }
  });
}

// With several workers each records the next ones that it gets, so the number may rise with the next snapshot.
export function show(count) {
  if (count || remaining) {
    const word = count === 1 ? "request is" : "requests are";
    setText(byId("record-state"), count ? `The next ${number(count)} ${word} recorded.` : "Recording has ended: open a marked row.");
  }
  remaining = count;
  setText(byId("record"), count ? "Stop recording" : `Record the next ${COUNT}`);
}
