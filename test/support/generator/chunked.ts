/**
 * The body of an answer that arrives in chunks (RFC 9112, section 7.1). Extensions and trailers have no effect.
 * @returns null while chunks are missing.
 */
export function chunkedBody(text: string): string | null {
  let body = '';
  for (let at = 0; ;) {
    const lineEnd = text.indexOf('\r\n', at);
    if (lineEnd === -1) return null;
    const line = text.slice(at, lineEnd);
    if (!/^[\da-f]+ *(;|$)/i.test(line)) throw new Error(`not the size of a chunk: ${line}`);
    const size = Number.parseInt(line, 16);
    if (size === 0) return text.endsWith('\r\n\r\n') ? body : null;
    const start = lineEnd + 2;
    if (text.length < start + size + 2) return null;
    body += text.slice(start, start + size);
    at = start + size + 2;
  }
}
