// The numbers at the axes of a chart.

const STEPS = [1, 2, 4, 6, 8, 10]; // their halves are short numbers, too

// A number in a few digits: 0.05, 1.5, 120.
export const short = (value) => value.toLocaleString("en", value < 10 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 0 });

// The lowest round number that is not below a value, for the upper end of an axis.
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return STEPS.find((step) => step * power >= value * 0.999999) * power;
}

// The moments (seconds) between two, that are whole multiples of `every` seconds of the clock.
export function ticks(from, to, every) {
  const found = [];
  for (let at = Math.ceil(from / every) * every; at <= to; at += every) found.push(at);
  return found;
}
