// The numbers of the last minutes in bins of some seconds: at first those of receipts, then the differences between two
// answers of the gateway.

const TIMES = ["first_event", "token_time", "lag"];
const FAILED = ["failed", "refused", "rejected"];

const total = (numbers) => Object.values(numbers).reduce((sum, each) => sum + each, 0);
const failed = (requests) => FAILED.reduce((sum, name) => sum + (requests[name] ?? 0), 0);

export class Series {
  #bins = [];
  #last = null;
  #width;
  #most;

  // Begins with the history of receipts, at Unix seconds. Bins that an earlier series measured keep what no receipt has.
  constructor(history, at, earlier = null) {
    this.#width = history.width;
    this.#most = history.bins.length;
    const start = at - this.#width * this.#most;
    this.#bins = history.bins.map((bin, place) => {
      const from = start + place * this.#width;
      const to = from + this.#width;
      if (to < at - history.covered) return empty(from, to);
      return { ...empty(from, to), ...earlier?.measured((from + to) / 2), ...of(bin.requests), ...bin, isKnown: true };
    });
  }

  // What only the gateway's answers have, at a moment.
  measured(time) {
    const bin = this.#bins.find((each) => each.from <= time && time < each.to);
    return bin && { lag: bin.lag, cpu: bin.cpu, cpuSeconds: bin.cpuSeconds, memory: bin.memory };
  }

  // Adds an answer of the gateway.
  add(sample, at) {
    const last = this.#last;
    this.#last = { ...sample, at };
    if (last === null) return;
    let bin = this.#bins.at(-1);
    if (!bin.isOpen || last.at - bin.from >= this.#width) {
      bin.isOpen = false;
      this.#bins.push((bin = { ...empty(last.at, at), isOpen: true, isKnown: true }));
      if (this.#bins.length > this.#most) this.#bins.shift();
    }
    bin.to = at;
    bin.open = sample.open_requests;
    bin.memory = sample.memory;
    bin.ended += rise(total(last.requests), total(sample.requests));
    bin.failed += rise(failed(last.requests), failed(sample.requests));
    bin.losses += rise(total(last.losses), total(sample.losses));
    bin.tokens_in += rise(tokens(last, "input"), tokens(sample, "input"));
    bin.tokens_out += rise(tokens(last, "output"), tokens(sample, "output"));
    bin.cpu = (bin.cpu ?? 0) + rise(last.cpu, sample.cpu);
    bin.cpuSeconds += at - last.at;
    for (const name of TIMES) {
      const more = sample[name].map((value, place) => rise(last[name][place], value));
      bin[name] = bin[name].length ? bin[name].map((value, place) => value + more[place]) : more;
    }
  }

  // The points of a chart: `values` makes those of a bin, from the bin and its seconds.
  points(values) {
    return this.#bins.map((bin) => ({ from: bin.from, to: bin.to, values: values(bin, bin.to - bin.from) }));
  }

  get span() {
    const end = this.#bins.at(-1).to;
    return [end - this.#width * this.#most, end];
  }
}

const rise = (one, two) => Math.max(0, two - one);

const tokens = (sample, side) => (sample.tokens[side] ?? 0) + (sample.tokens[`${side}_estimated`] ?? 0);

const of = (requests) => ({ ended: total(requests), failed: failed(requests) });

// Without a receipt or an answer a bin is not known, which is not the same as nothing.
function empty(from, to) {
  const counts = { open: null, ended: 0, failed: 0, losses: 0, tokens_in: 0, tokens_out: 0, cpu: null, cpuSeconds: 0, memory: null };
  return { from, to, ...counts, first_event: [], token_time: [], lag: [], isKnown: false };
}

// The value below which a share of a histogram's values lies, estimated within its bucket as Prometheus does; null
// without values. `counts` has one more bucket, without an end, and the sum.
export function quantile(counts, ends, share) {
  const buckets = counts.slice(0, -1);
  const wanted = total(buckets) * share;
  if (!(wanted > 0)) return null;
  let seen = 0;
  for (const [at, count] of buckets.entries()) {
    if (seen + count >= wanted && count > 0) {
      if (at >= ends.length) break;
      const low = at ? ends[at - 1] : 0;
      return low + ((wanted - seen) / count) * (ends[at] - low);
    }
    seen += count;
  }
  return ends.at(-1);
}
