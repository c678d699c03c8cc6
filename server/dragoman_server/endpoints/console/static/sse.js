// A parser of server-sent events for streams that are read by fetch, as EventSource cannot send a key.

export class SSEReader {
  #rest = "";
  #onEvent;

  constructor(onEvent) {
    this.#onEvent = onEvent;
  }

  feed(text) {
    this.#rest = (this.#rest + text).replaceAll("\r\n", "\n");
    for (let end = this.#rest.indexOf("\n\n"); end >= 0; end = this.#rest.indexOf("\n\n")) {
      this.#frame(this.#rest.slice(0, end));
      this.#rest = this.#rest.slice(end + 2);
    }
  }

  #frame(text) {
    let name = "";
    const data = [];
    for (const line of text.split("\n")) {
      if (line.startsWith("event:")) name = line.slice(6).trimStart();
      else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
    }
    if (name || data.length) this.#onEvent(name, data.join("\n"));
  }
}
