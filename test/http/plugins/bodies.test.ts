import { test } from 'tap';
import { decodeFormText, decodeUtf8, parseForm } from '../../../src/http/plugins/bodies.ts';

const parse = (text: string | Buffer) => parseForm(Buffer.from(text as string));

test('a form is read by the rules of OAuth', (t) => {
  for (const [text, parameters] of [
    ['', {}],
    ['&&', {}],
    ['token=a.b-c_d&token_type_hint=access_token', { token: 'a.b-c_d', token_type_hint: 'access_token' }],
    ['a=1+2%203%2B&b==&c=%26%3D', { a: '1 2 3+', b: '=', c: '&=' }],
    ['token=&token_type_hint', {}],
    ['a=%00&b=%E6%97%A5', { a: '\0', b: '日' }],
    ['=x', { '': 'x' }],
  ] as const)
    t.strictSame(parse(text), { parameters }, text);
  const odd = parse('__proto__=x&constructor=y');
  t.ok('parameters' in odd && Object.hasOwn(odd.parameters, '__proto__'), 'an ordinary name');
  t.equal(({} as Record<string, unknown>).x, undefined);
  t.end();
});

test('a malformed form is refused', (t) => {
  for (const text of ['token=%', 'token=%zz', '%ff=x', 'token=%c3%28', Buffer.from('746f6b656e3dff', 'hex')])
    t.strictSame(parse(text), { fault: 'malformed' }, text.toString());
  t.end();
});

test('a repeated parameter is refused, even without a value or in another encoding', (t) => {
  for (const text of ['a=1&a=1', 'a=1&a=2', 'a=&a=2', 'a=1&a', 'token=1&%74oken=2', 'x=1&token=1&x=2'])
    t.strictSame(parse(text), { fault: 'repeated' }, text);
  t.end();
});

test('text is decoded strictly', (t) => {
  t.equal(decodeFormText('a+b%20c%2B'), 'a b c+');
  for (const text of ['%', '%e', '%ff', 'a%zz']) t.equal(decodeFormText(text), null, text);
  t.equal(decodeUtf8(Buffer.from('é')), 'é');
  t.equal(decodeUtf8(Buffer.from([0xff])), null);
  t.equal(decodeUtf8(Buffer.from('\ufeffx')), '\ufeffx', 'nothing is removed');
  t.end();
});
