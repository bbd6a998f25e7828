import type { Dice } from './dice.ts';
import { IN_FORM } from './form-mistakes.ts';
import { CREDENTIALS, HOSTILE_TEXTS, TOKENS, TARGETS } from './hostile.ts';
import { rawRequest } from './raw-requests.ts';
import type { Request } from './requests.ts';

/** One mistake in a request. Some requests allow it. */
export type Mistake = (request: Request, dice: Dice, properties: Properties) => Partial<Request>;

/** Of its body, by name. */
interface Properties {
  required: string[];
  nullable: string[];
}

/** Mistakes that need a body. */
const IN_BODY: Record<string, Mistake> = {
  'a property is missing': (request, dice, { required }) => {
    if (required.length === 0) return {};
    const left = Object.entries(valuesOf(request));
    const name = dice.pick(required);
    return { body: json(Object.fromEntries(left.filter(([key]) => key !== name))), expects: 'refusal' };
  },
  'a property has the wrong type': (request, dice, { nullable }) => {
    const values = valuesOf(request);
    const name = dice.pick(Object.keys(values));
    const others = [5, -0, 1e300, true, [], {}, ['x'], { x: 1 }, ...(nullable.includes(name) ? [] : [null])];
    values[name] = dice.pick(others.filter((other) => typeof other !== typeof values[name]));
    return { body: json(values), expects: 'refusal' };
  },
  'an unknown property': (request, dice) => {
    const name = dice.pick([
      'admin',
      'id',
      'Username',
      'username ',
      '',
      'toString',
      'hasOwnProperty',
      '$ref',
    ]);
    return { body: json({ ...valuesOf(request), [name]: dice.pick([1, 'x', null]) }), expects: 'refusal' };
  },
  'a prototype key': (request, dice) => {
    const name = dice.pick(['__proto__', 'constructor', 'prototype']);
    const value = dice.pick(['{"admin":true}', '{"prototype":{"admin":true}}', '1', 'null']);
    const key = dice.chance(0.3) ? name.replace('o', '\\u006f') : name;
    const text = json(valuesOf(request)).toString().replace('{', `{"${key}":${value},`);
    return { body: Buffer.from(text), expects: 'refusal' };
  },
  'a key twice': (request, dice) => {
    const values = valuesOf(request);
    const name = dice.pick(Object.keys(values));
    const text = json(values)
      .toString()
      .replace('{', `{${JSON.stringify(name)}:${dice.pick(['5', '"x"', '{}'])},`);
    return { body: Buffer.from(text), expects: 'anything' };
  },
  'a hostile text': (request, dice) => {
    const values = valuesOf(request);
    values[dice.pick(Object.keys(values))] = dice.pick(HOSTILE_TEXTS);
    return { body: json(values), expects: 'anything', secrets: [] };
  },
  'bytes that are not UTF-8': (request, dice) => {
    const bad = dice.pick([[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xe2, 0x82]]);
    return { body: spliced(request, dice, Buffer.from(bad)), expects: 'refusal' };
  },
  'a NUL': (request, dice) => ({ body: spliced(request, dice, Buffer.from([0])), expects: 'refusal' }),
  'cut off': (request, dice) => {
    const { body } = request;
    return { body: body?.subarray(0, 1 + dice.below(body.length - 1)) ?? null, expects: 'refusal' };
  },
  'one byte changed': (request, dice) => {
    const body = Buffer.from(request.body ?? '');
    body[dice.below(body.length)] = dice.below(256);
    return { body, expects: 'anything', secrets: [] };
  },
  'not an object': (_request, dice) => ({
    body: Buffer.from(dice.pick(['null', '5', '"x"', '[]', 'true', '[{}]', '1e999', '""', '-'])),
    expects: 'refusal',
  }),
  'an empty object': (_request, _dice, { required }) => ({
    body: Buffer.from('{}'),
    expects: required.length > 0 ? 'refusal' : 'anything',
  }),
  'deep JSON': (request, dice) => {
    const depth = 1 + dice.below(7000);
    const [open, close] = dice.pick([
      ['[', ']'],
      ['{"a":', '}'],
    ] as const);
    const levels = Math.min(depth, Math.floor(15_000 / (open.length + close.length)));
    const deep = `${open.repeat(levels)}1${close.repeat(levels)}`;
    const [name = 'x'] = Object.keys(valuesOf(request));
    return { body: Buffer.from(dice.chance(0.5) ? deep : `{"${name}":${deep}}`), expects: 'refusal' };
  },
  'a body over the limit': (request, dice) => ({
    body: Buffer.concat([request.body ?? Buffer.alloc(0), Buffer.alloc(16_384 + dice.below(50_000), ' ')]),
    expects: 'refusal',
  }),
  'many properties': (request, dice) => {
    const more = Object.fromEntries(Array.from({ length: 1 + dice.below(800) }, (_, i) => [`p${i}`, i]));
    return { body: json({ ...valuesOf(request), ...more }), expects: 'refusal' };
  },
  'another content type': (request, dice) => {
    const type = dice.pick([
      'text/plain',
      'application/xml',
      'multipart/form-data; boundary=x',
      'application/jsonp',
      'json',
      'application/x-www-form-urlencoded',
      '*/*',
      ';',
      '',
      'application/json5',
      'application /json',
    ]);
    return { headers: [...without(request, 'Content-Type'), ['Content-Type', type]], expects: 'refusal' };
  },
  'a content type with parameters': (request, dice) => {
    const type = dice.pick([
      'application/json; charset=utf-8',
      'APPLICATION/JSON',
      'application/json;charset=utf-16',
      'application/json; x="',
      'application/json, text/plain',
      'application/json;;',
    ]);
    return { headers: [...without(request, 'Content-Type'), ['Content-Type', type]], expects: 'anything' };
  },
  'no content type': (request) => ({ headers: without(request, 'Content-Type'), expects: 'refusal' }),
};

/** Mistakes for any request. */
const ANYWHERE: Record<string, Mistake> = {
  'as documented': () => ({}),
  'another token': (request, dice) => {
    if (request.session === null) return {};
    const token = dice.pick(TOKENS)(request.session, dice);
    return { headers: [...without(request, 'Authorization'), ['Authorization', token]], expects: 'refusal' };
  },
  'a token that was exchanged': (request) => {
    const token = request.session?.stale[0];
    if (token === undefined) return {};
    // It ends the session at refresh. Other operations refuse it.
    return {
      headers: [...without(request, 'Authorization'), ['Authorization', `Bearer ${token}`]],
      expects: 'anything',
    };
  },
  'other credentials of a service': (request, dice) => {
    const found = request.headers.find(
      ([name, value]) => name === 'Authorization' && value.startsWith('Basic'),
    );
    if (!found) return {};
    const other = dice.pick(CREDENTIALS)(found[1], dice);
    return { headers: [...without(request, 'Authorization'), ['Authorization', other]], expects: 'refusal' };
  },
  'no token': (request) => {
    if (!request.headers.some(([name]) => name === 'Authorization')) return {};
    return { headers: without(request, 'Authorization'), expects: 'refusal' };
  },
  'a token twice': (request) => {
    const found = request.headers.find(([name]) => name === 'Authorization');
    return found ? { headers: [...request.headers, found], expects: 'anything' } : {};
  },
  'odd headers': (request, dice) => {
    const odd: [string, string] = dice.pick([
      ['X-Request-Id', dice.pick(['mine-1', '', 'x'.repeat(65), 'a b', '${jndi:ldap://x}', '../..'])],
      [
        'traceparent',
        dice.pick(['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'x', '00--', '']),
      ],
      ['X-Forwarded-For', dice.pick(['10.0.0.1', 'x', '::1, 127.0.0.1', ','.repeat(500)])],
      ['Forwarded', dice.pick(['for=10.0.0.1', 'for="', ';;;'])],
      ['User-Agent', dice.pick(['curl/8', '', 'x'.repeat(8000), 'Mozilla/5.0 (', '\xe9\xff'])],
      ['Accept', dice.pick(['text/html', '*/*;q=0', 'x', 'application/json', 'application/problem+json'])],
      ['Cookie', 'access_token=x; __proto__=1'],
      ['Content-Encoding', dice.pick(['gzip', 'br', 'x'])],
      ['Accept-Encoding', 'gzip, br'],
      ['X-HTTP-Method-Override', 'DELETE'],
      ['__proto__', 'x'],
      ['constructor', 'x'],
      ['Range', 'bytes=0-1'],
      ['If-None-Match', dice.pick(['*', 'W/"x", *', '"', ','.repeat(500)])],
      ['Last-Event-ID', dice.pick(['x', '', 'x.1', `${'x'.repeat(64)}.9007199254740993`, '\xff.0', '.'])],
      ['Upgrade', 'websocket'],
    ]);
    return { headers: [...request.headers, odd], expects: request.expects };
  },
  'a huge header': (request, dice) => ({
    headers: [...request.headers, ['X-Long', 'x'.repeat(16_385 + dice.below(20_000))]],
    expects: 'refusal',
  }),
  'many headers': (request, dice) => {
    const more = Array.from({ length: 50 + dice.below(1500) }, (_, i): [string, string] => [`X-${i}`, 'y']);
    return { headers: [...request.headers, ...more], expects: 'anything' };
  },
  'another method': (_request, dice) => ({
    method: dice.pick([
      'HEAD',
      'PUT',
      'PATCH',
      'OPTIONS',
      'TRACE',
      'PROPFIND',
      'GET',
      'POST',
      'DELETE',
      'SEARCH',
    ]),
    expects: 'anything',
  }),
  'another target': (request, dice) => {
    const target = dice.pick(TARGETS)(request.target, dice);
    return { target, expects: 'anything' };
  },
  'a query': (request, dice) => {
    const query = dice.pick([
      'id=',
      'id=0',
      'id=-1',
      'id=1e3',
      'id=0x10',
      'id=9007199254740993',
      'id=99999999999999999999',
      'id=1&id=2',
      'id[]=1',
      'id=%00',
      'id=%ff',
      'id=7;DROP',
      '__proto__[x]=1',
      'constructor=1',
      '%',
      '&&&=',
      'x=1',
      'id=1&x=1',
      `id=${'9'.repeat(5000)}`,
      'id=+7',
      'id=%37777777777',
      'id=７',
      'ID=7',
    ]);
    return { target: `${request.target}?${query}`, expects: 'anything' };
  },
  'an unexpected body': (request, dice) => ({
    headers: [...without(request, 'Content-Type'), ['Content-Type', 'application/json']],
    body: Buffer.from(dice.pick(['{}', '', '[]', '{"id":7}', 'null', '{"__proto__":1}', 'x'.repeat(20_000)])),
    expects: 'anything',
  }),
  'no HTTP': (request, dice) => ({ raw: rawRequest(request, dice), expects: 'refusal' }),
};

/** Adds one mistake to the request, or none if it does not fit. */
export function withMistake(request: Request, dice: Dice, properties: Properties): Request {
  const mistakes = request.body && dice.chance(0.6) ? (request.isForm ? IN_FORM : IN_BODY) : ANYWHERE;
  const name = dice.chance(0.2) ? 'as documented' : dice.pick(Object.keys(mistakes));
  const changes = (mistakes[name] ?? ANYWHERE[name])?.(request, dice, properties) ?? {};
  const isChanged = Object.keys(changes).length > 0;
  return { ...request, ...changes, name: isChanged ? name : 'as documented' };
}

function valuesOf({ body }: Request): Record<string, unknown> {
  return JSON.parse(String(body)) as Record<string, unknown>;
}

export function without({ headers }: Request, unwanted: string): [string, string][] {
  return headers.filter(([name]) => name !== unwanted);
}

export function spliced({ body }: Request, dice: Dice, bytes: Buffer): Buffer {
  const text = body ?? Buffer.alloc(0);
  const at = dice.below(text.length + 1);
  return Buffer.concat([text.subarray(0, at), bytes, text.subarray(at)]);
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}
