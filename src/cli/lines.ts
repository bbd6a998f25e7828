/** A longer line is not kept in memory: no account needs more. */
export const LONGEST_LINE = 16 * 1024;

/** A line of a file. */
export interface Line {
  /** From 1 on. */
  number: number;
  /** Without its end; null if it is longer than `longest`. */
  bytes: Uint8Array | null;
}

const NEWLINE = 0x0a;

/**
 * Splits a file into its lines. Reads the next chunk only when the lines of the one before are taken.
 * @param longest bytes of a line that is kept.
 */
export async function* readLines(
  chunks: AsyncIterable<Uint8Array>,
  longest = LONGEST_LINE,
): AsyncGenerator<Line> {
  let number = 1;
  /** The beginning of a line; null if it is too long already. */
  let begun: Uint8Array | null = new Uint8Array();
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
      yield { number, bytes: joined(begun, chunk.subarray(from, end), longest) };
      number++;
      begun = new Uint8Array();
      from = end + 1;
    }
    begun = joined(begun, chunk.subarray(from), longest);
  }
  if (begun === null || begun.length > 0) yield { number, bytes: begun };
}

function joined(begun: Uint8Array | null, more: Uint8Array, longest: number): Uint8Array | null {
  if (begun === null || begun.length + more.length > longest) return null;
  return Buffer.concat([begun, more]);
}

/** Blank lines separate nothing, and count as nothing. */
export function isBlank({ bytes }: Line): boolean {
  return bytes?.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d) ?? false;
}
