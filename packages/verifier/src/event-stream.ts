import { unavailable } from './verifier-error.ts';

/** One event of a `text/event-stream` (WHATWG HTML, section 9.2). */
export interface StreamEvent {
  event: string;
  data: string;
  /** Undefined if the event has no id of its own. */
  id: string | undefined;
}

/** Characters of one event: many times the largest part of a snapshot. */
const MAX_EVENT = 4_000_000;

/**
 * Reads events from a stream's bytes, as the standard says, for lines that end in LF or CRLF. Ignores `retry`: feed.ts
 * sets the pace of reconnecting.
 * @throws VerifierError if one event is longer than any of Latchkey's.
 */
export async function* readEvents(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<StreamEvent> {
  const decoder = new TextDecoder();
  let text = '';
  let event = noEvent();
  let length = 0;
  for await (const chunk of bytes) {
    text += decoder.decode(chunk, { stream: true });
    const lines = text.split('\n');
    // The last line may be incomplete.
    text = lines.pop() ?? '';
    for (const line of lines) {
      length += line.length;
      if (!isBlank(line)) take(event, line);
      else {
        if (event.data.length > 0 || event.id !== undefined)
          yield { event: event.event, data: event.data.join('\n'), id: event.id };
        event = noEvent();
        length = 0;
      }
    }
    if (length + text.length > MAX_EVENT)
      throw unavailable('unexpected_answer', 'the feed sent an event that is too long');
  }
}

function noEvent(): { event: string; data: string[]; id: string | undefined } {
  return { event: 'message', data: [], id: undefined };
}

function isBlank(line: string): boolean {
  return line === '' || line === '\r';
}

function take(event: ReturnType<typeof noEvent>, line: string): void {
  const text = line.endsWith('\r') ? line.slice(0, -1) : line;
  const colon = text.indexOf(':');
  const field = colon < 0 ? text : text.slice(0, colon);
  const value = colon < 0 ? '' : text.slice(colon + (text[colon + 1] === ' ' ? 2 : 1));
  if (field === 'event') event.event = value;
  else if (field === 'data') event.data.push(value);
  else if (field === 'id') event.id = value;
}
