import { HOSTILE_TEXTS } from './hostile.ts';
import { spliced, without, type Mistake } from './mistakes.ts';
import type { Request } from './requests.ts';

/** Mistakes in a form. By RFC 6749, section 3.1, unknown parameters are ignored and repeated ones refused. */
export const IN_FORM: Record<string, Mistake> = {
  'a parameter is missing': (_request, dice) => {
    const token = dice.pick(['', 'token=', 'token']);
    return { body: Buffer.from(`token_type_hint=x&${token}`), expects: 'refusal' };
  },
  'a parameter twice': (request, dice) => {
    const [name = ''] = new URLSearchParams(textOf(request)).keys();
    const escaped = `%${name.charCodeAt(0).toString(16)}${name.slice(1)}`;
    const again = dice.pick([textOf(request), `${name}=x`, `${name}=`, `${escaped}=x`]);
    return { body: Buffer.from(`${textOf(request)}&${again}`), expects: 'refusal' };
  },
  'an unknown parameter': (request, dice) => {
    const other = dice.pick([
      'x=1',
      '__proto__=1',
      'constructor=1',
      '=',
      '&&&',
      'Token=x',
      'client_id=x',
      '%20=',
    ]);
    return { body: Buffer.from(`${textOf(request)}&${other}`) };
  },
  'many parameters': (request, dice) => {
    const more = Array.from({ length: 1 + dice.below(800) }, (_, i) => `p${i}=${i}`);
    return { body: Buffer.from([textOf(request), ...more].join('&')) };
  },
  'a hostile text in a form': (_request, dice) => {
    // Lone surrogates become the replacement character.
    const body = new URLSearchParams({ token: dice.pick(HOSTILE_TEXTS) });
    return { body: Buffer.from(body.toString()), expects: 'anything', secrets: [] };
  },
  'a malformed escape': (request, dice) => {
    const escape = dice.pick(['%', '%2', '%zz', '%u0041', '%ff', '%c0%af', '%ed%a0%80', '%e2%82']);
    const body = dice.pick([`${textOf(request)}${escape}`, `${textOf(request)}&${escape}=1`]);
    return { body: Buffer.from(body), expects: 'refusal' };
  },
  'bytes in a form that are not UTF-8': (request, dice) => {
    const bad = dice.pick([[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xe2, 0x82]]);
    return { body: spliced(request, dice, Buffer.from(bad)), expects: 'refusal' };
  },
  'one byte of a form changed': (request, dice) => {
    const body = Buffer.from(request.body ?? '');
    body[dice.below(body.length)] = dice.below(256);
    return { body, expects: 'anything', secrets: [] };
  },
  'a form over the limit': (request, dice) => ({
    body: Buffer.concat([request.body ?? Buffer.alloc(0), Buffer.alloc(16_384 + dice.below(50_000), '&')]),
    expects: 'refusal',
  }),
  'JSON in place of a form': (request, dice) => {
    const token = new URLSearchParams(textOf(request)).get('token');
    const body = Buffer.from(JSON.stringify({ token }));
    return { ...typed(request, dice.pick(['application/json', 'application/json; charset=utf-8'])), body };
  },
  'another content type of a form': (request, dice) =>
    typed(
      request,
      dice.pick(['text/plain', 'multipart/form-data; boundary=x', 'application/x-www-form', '*/*', '']),
    ),
  'no content type of a form': (request) => ({
    headers: without(request, 'Content-Type'),
    expects: 'refusal',
  }),
  'a content type of a form with parameters': (request, dice) => {
    const type = 'application/x-www-form-urlencoded';
    const headers = dice.pick([`${type}; charset=utf-8`, type.toUpperCase(), `${type};;`, `${type}; x="`]);
    return { ...typed(request, headers), expects: 'anything' };
  },
};

function typed(request: Request, type: string): Pick<Request, 'headers' | 'expects'> {
  return { headers: [...without(request, 'Content-Type'), ['Content-Type', type]], expects: 'refusal' };
}

function textOf({ body }: Request): string {
  return String(body);
}
