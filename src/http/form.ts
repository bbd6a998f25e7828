/** application/x-www-form-urlencoded, as OAuth uses it (RFC 6749, appendix B). */
import { isUtf8 } from 'node:buffer';

/** @returns null if an escape is malformed, or the decoded text is not UTF-8. */
export function decodeFormText(text: string): string | null {
  // A token has no escapes, and two searches cost far less than decoding it.
  if (!text.includes('%') && !text.includes('+')) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}

/** @returns null if the bytes are not UTF-8. */
export function decodeUtf8(bytes: Buffer): string | null {
  return isUtf8(bytes) ? bytes.toString() : null;
}

/** A form's parameters, or its error. */
export type Form = { parameters: Record<string, string> } | { fault: 'malformed' | 'repeated' };

/**
 * RFC 6749, section 3.1: a parameter without a value counts as omitted, and no parameter may be repeated. Node's own
 * parser would accept a malformed escape, and keep the last of two values.
 */
export function parseForm(body: Buffer): Form {
  const text = decodeUtf8(body);
  if (text === null) return { fault: 'malformed' };
  const parameters = new Map<string, string>();
  for (const part of text.split('&')) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const end = equals === -1 ? part.length : equals;
    const name = decodeFormText(part.slice(0, end));
    const value = decodeFormText(part.slice(end + 1));
    if (name === null || value === null) return { fault: 'malformed' };
    if (parameters.has(name)) return { fault: 'repeated' };
    parameters.set(name, value);
  }
  for (const [name, value] of parameters) if (value === '') parameters.delete(name);
  // fromEntries creates `__proto__` as an ordinary property.
  return { parameters: Object.fromEntries(parameters) };
}
