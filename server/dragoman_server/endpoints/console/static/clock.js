// Times of the day, with the date if it is not today.

const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export const clock = (date) => TIME.format(date);

export const minute = (date) => clock(date).slice(0, 5);

// The time of Unix seconds: "14:03:05" today, else "26 Nov 14:03:05", with the year if that is another one.
export function time(unix, now = new Date()) {
  const date = new Date(unix * 1000);
  if (date.toDateString() === now.toDateString()) return clock(date);
  const day = date.getFullYear() === now.getFullYear() ? DAY : YEAR;
  return `${day.format(date)} ${clock(date)}`;
}

export const exact = (unix) => new Date(unix * 1000).toISOString();
