import type { Dice } from './dice.ts';
import type { Request } from './requests.ts';

/** Bytes that are not HTTP/1.1, or that two servers would read differently. */
export function rawRequest({ method, target, headers }: Request, dice: Dice): Buffer {
  const line = `${method} ${target} HTTP/1.1\r\nHost: x\r\n`;
  const credentials = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const text = dice.deal([
    `${line}A: b\0c\r\n\r\n`,
    `${line}\0: x\r\n\r\n`,
    `${line}bad header\r\n\r\n`,
    `${line}A : b\r\n\r\n`,
    `${line}Content-Length: -1\r\n\r\n`,
    `${line}Content-Length: 1, 2\r\n\r\n`,
    `${line}Content-Length: 1\r\nContent-Length: 2\r\n\r\nx`,
    `${line}Content-Length: 18446744073709551616\r\n\r\n`,
    `${line}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${line}Transfer-Encoding: tricky\r\n\r\n`,
    `${line}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
    `${line}${credentials}Expect: a-miracle\r\n\r\n`,
    `${method} ${target} HTTP/9.9\r\nHost: x\r\n\r\n`,
    `${method} ${target}\0 HTTP/1.1\r\nHost: x\r\n\r\n`,
    `${method} ${target} HTTP/1.1\r\n\r\n`,
    `FETCH ${target} HTTP/1.1\r\nHost: x\r\n\r\n`,
    `${method.toLowerCase()} ${target} HTTP/1.1\r\nHost: x\r\n\r\n`,
    `\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03${dice.word(40)}`,
    `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`,
    `${dice.word(200)}\r\n\r\n`,
    `${line}${'X-Some: thing\r\n'.repeat(2000)}\r\n`,
    `GET /${'x'.repeat(17_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
  ]);
  return Buffer.from(text, 'latin1');
}

/** The bytes of a request. */
export function bytesOf({ method, target, headers, body, raw }: Request): Buffer {
  if (raw) return raw;
  const lines = [
    // Bytes, not characters: a target or header may be outside of ASCII.
    `${method} ${target} HTTP/1.1`,
    'Host: latchkey.test',
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...(body || method === 'POST' ? [`Content-Length: ${body?.length ?? 0}`] : []),
  ];
  return Buffer.concat([toBytes(`${lines.join('\r\n')}\r\n\r\n`), body ?? Buffer.alloc(0)]);
}

/** Latin-1 if possible, else UTF-8. */
function toBytes(text: string): Buffer {
  return /^[\0-\xff]*$/.test(text) ? Buffer.from(text, 'latin1') : Buffer.from(text);
}
