// What the programs beside this one share: the tool, the scripted models' names, and the lines they print.
import { randomBytes } from 'node:crypto';

/** Reasons, says something, calls the first tool, then quotes its result. */
export const THINKS = 'sim-thinking';
/** Calls two tools in one reply, one after the other, as the vendors themselves stream them. */
export const PARALLEL = 'sim-parallel-in-turn';
/** The same with their arguments side by side. */
export const INTERLEAVED = 'sim-parallel';
export const LIMITED = 'sim-error-429';
export const OVERLOADED = 'sim-error-529';
/** An error of the upstream's own after some text. */
export const BROKEN = 'sim-error-mid';
/** A connection that ends in the middle of the text. */
export const CUT = 'sim-cut';
export const SYSTEM = 'You are the test assistant.';
export const PROMPT = 'Which word belongs to the topic?';
export const ABOUT = 'The secret word of a topic.';
export const SCHEMA = {
  type: 'object',
  properties: { topic: { type: 'string', description: 'The topic' } },
  required: ['topic'],
  additionalProperties: false,
};
/** Output tokens that every request allows. */
export const LIMIT = 4000;
export const [BASE, VARIANT] = process.argv.slice(2);

/** The tool: each call makes up a word that nobody could guess. */
class Words {
  made = [];
  arguments = [];

  find(topic) {
    this.arguments.push(topic);
    this.made.push(randomBytes(6).toString('hex'));
    return `the word is ${this.made.at(-1)}`;
  }
}

/** Print what came of a conversation with a tool: `act` gets the tool and gives text, reasoning, input and output. */
export async function loop(step, act) {
  const words = new Words();
  try {
    const { text, reasoning, input, output } = await act(words);
    say(step, { words: words.made, arguments: words.arguments, text, reasoning, input, output });
  } catch (error) {
    console.error(error);
    say(step, told(error));
  }
}

/** Print the exception that a request ends in. */
export async function failure(step, act) {
  try {
    say(step, { raised: '', message: String(JSON.stringify(await act())).slice(0, 500) });
  } catch (error) {
    say(step, told(error));
  }
}

function told(error) {
  const own = error?.name && error.name !== 'Error' ? error.name : error?.constructor?.name;
  const said = typeof error === 'object' && !error?.message ? JSON.stringify(error) : String(error?.message ?? error);
  return { raised: own ?? typeof error, message: said.slice(0, 500) };
}

function say(step, seen) {
  console.log(JSON.stringify({ step, ...seen }));
}
