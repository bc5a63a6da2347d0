// Proof that the server at our address knows our token, before that is sent: after the end of a run any program may listen at the port. HMAC with SHA-256
// (RFC 2104, FIPS 180-4) stands here because the browser's own exists only in secure contexts, and an address of `--listen` is none.

/** Shortest token of which servers give a proof: a shorter one could be guessed from it. */
const SHORTEST = 32;
const BLOCK = 64;
const PATIENCE = 5_000;

/** `none`: nothing answers. `wrong`: something answers, and it is not a server of our run. */
export type Proof = "good" | "wrong" | "none";

export const isProvable = (token: string): boolean => token.length >= SHORTEST;

/** Returns whether a server answers at this address, whichever it is. */
export async function isAnswering(): Promise<boolean> {
  try {
    return (await fetch("/healthz", { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(PATIENCE) })).ok;
  } catch {
    return false;
  }
}

export async function prove(token: string): Promise<Proof> {
  if (!isProvable(token)) return "good";
  const nonce = hex(crypto.getRandomValues(new Uint8Array(32)));
  try {
    const answer = await fetch(`/proof?nonce=${nonce}`, { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) return "wrong";
    const { proofs } = await answer.json();
    const expected = hex(hmac(bytes(token), bytes(`hankweave proof\n${location.host.toLowerCase()}\n${nonce}`)));
    return Array.isArray(proofs) && proofs.includes(expected) ? "good" : "wrong";
  } catch (error) {
    return error instanceof SyntaxError ? "wrong" : "none";
  }
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const hex = (of: Uint8Array): string => Array.from(of, (byte) => byte.toString(16).padStart(2, "0")).join("");

function hmac(key: Uint8Array, message: Uint8Array): Uint8Array {
  const block = new Uint8Array(BLOCK);
  block.set(key.length > BLOCK ? sha256(key) : key);
  const padded = (pad: number, rest: Uint8Array) => {
    const all = new Uint8Array(BLOCK + rest.length);
    all.set(block.map((byte) => byte ^ pad));
    all.set(rest, BLOCK);
    return sha256(all);
  };
  return padded(0x5c, padded(0x36, message));
}

/** The first 32 bits of the fractional parts of a root of the first primes. */
function constants(count: number, root: number): Uint32Array {
  const found = new Uint32Array(count);
  for (let n = 2, at = 0; at < count; n++) {
    let isPrime = true;
    for (let by = 2; by * by <= n; by++) if (n % by === 0) isPrime = false;
    if (isPrime) found[at++] = (n ** (1 / root) % 1) * 2 ** 32;
  }
  return found;
}

const K = constants(64, 3);
const START = constants(8, 2);

export function sha256(message: Uint8Array): Uint8Array {
  const padded = new Uint8Array((((message.length + 8) >> 6) + 1) << 6);
  padded.set(message);
  padded[message.length] = 0x80;
  const input = new DataView(padded.buffer);
  input.setUint32(padded.length - 8, message.length / 2 ** 29);
  input.setUint32(padded.length - 4, message.length << 3);
  const state = START.slice();
  const w = new Uint32Array(64);
  const turn = (x: number, by: number) => (x >>> by) | (x << (32 - by));
  for (let from = 0; from < padded.length; from += BLOCK) {
    for (let i = 0; i < 64; i++) {
      if (i < 16) w[i] = input.getUint32(from + 4 * i);
      else {
        const [x, y] = [w[i - 15]!, w[i - 2]!];
        w[i] = w[i - 16]! + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + w[i - 7]! + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
      }
    }
    let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
    for (let i = 0; i < 64; i++) {
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i]! + w[i]!) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((value, at) => (state[at]! += value));
  }
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, at) => digest.setUint32(4 * at, word));
  return new Uint8Array(digest.buffer);
}
