// The exchanges before those of the live table: page by page from the gateway's memory, then from the list of receipts,
// which is the store's if the gateway has one.

import { getJson } from "./api.js";
import { selects } from "./filters.js";

const PAGE = 100;

export class Older {
  #filters;
  #inMemory = true;
  isDone = false;

  constructor(filters) {
    this.#filters = filters;
  }

  // The next rows, the newest first; none if there are no more. `oldest` is the oldest row in the table.
  async next(oldest, signal) {
    if (this.#inMemory) {
      const rows = await this.#page(oldest, signal);
      if (rows.length < PAGE) this.#inMemory = false;
      if (rows.length) return rows;
    }
    if (this.isDone) return [];
    this.isDone = true;
    return this.#receipts(oldest, signal);
  }

  async #page(oldest, signal) {
    const query = new URLSearchParams(this.#filters);
    query.set("rows", String(PAGE));
    query.set("before", String(oldest.time));
    query.set("opened", String(oldest.opened));
    return (await getJson(`api/exchanges?${query}`, { signal })).rows;
  }

  async #receipts(oldest, signal) {
    const { data } = await getJson(`../v1/dragoman/receipts?limit=${PAGE}`, { signal });
    return data.map(rowOf).filter((row) => row.time <= oldest.time && selects(this.#filters, row));
  }
}

// The row of a receipt of the list, which has no times but that of the request.
function rowOf(receipt) {
  const { error } = receipt;
  return {
    id: receipt.request_id,
    time: receipt.created,
    client: receipt.endpoint ?? receipt.client,
    upstream: receipt.upstream,
    model: receipt.model,
    upstream_model: receipt.upstream_model,
    provider: receipt.provider,
    profile: receipt.client_profile,
    host: receipt.host,
    state: receipt.ended,
    status: receipt.status,
    seconds: null,
    first: null,
    tokens_in: receipt.usage?.input_total,
    tokens_out: receipt.usage?.output_total,
    losses: receipt.losses_total,
    attempts: 0,
    reason: error ? (error.message ?? error.code ?? error.kind) : null,
  };
}
