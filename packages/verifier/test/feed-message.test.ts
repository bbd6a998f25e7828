import { test } from 'tap';
import { readMessage } from '../src/feed-message.ts';

const read = (event: string, data: string) => readMessage({ event, data, id: undefined });

test('reads the events of the feed', (t) => {
  t.strictSame(read('heartbeat', '{}'), { type: 'heartbeat' });
  t.strictSame(read('revoked', '{"token":11,"user":7}'), { type: 'revoked', token: 11 });
  t.strictSame(read('user_revoked', '{"user":7,"before":90}'), { type: 'user_revoked', user: 7, before: 90 });
  for (const type of ['created', 'changed', 'disabled', 'enabled', 'deleted'])
    t.strictSame(read(`user_${type}`, '{"user":7,"version":0}'), {
      type: 'user',
      event: { type, userId: 7, version: 0 },
    });
  t.strictSame(
    read(
      'snapshot',
      '{"tokens":[11,12],"users":[{"user":7,"before":90}],"statuses":[{"user":8,"status":"deleted","version":3}],"last":true,"remember":905}',
    ),
    {
      type: 'snapshot',
      tokens: [11, 12],
      users: [{ user: 7, before: 90 }],
      statuses: [{ type: 'deleted', userId: 8, version: 3 }],
      isLast: true,
      remember: 905,
    },
  );
  t.strictSame(read('clients', '{"versions":{"lkc_a":0,"lkc_b":3}}'), {
    type: 'clients',
    versions: new Map([
      ['lkc_a', 0],
      ['lkc_b', 3],
    ]),
  });
  t.match(read('snapshot', '{"tokens":[],"users":[],"statuses":[],"last":false,"remember":905}'), {
    isLast: false,
  });
  t.end();
});

test('ignores unknown events of later versions', (t) => {
  t.equal(read('rotated', '{"token":11}'), null);
  t.equal(read('message', ''), null);
  t.end();
});

test('does not ignore a revocation that it cannot read', (t) => {
  const wrong: [event: string, data: string][] = [
    ['revoked', '{"token":"11"}'],
    ['revoked', '{"token":0}'],
    ['revoked', '{}'],
    ['revoked', '{"token":11'],
    ['revoked', 'null'],
    ['user_revoked', '{"user":7}'],
    ['user_revoked', '{"user":7,"before":1.5}'],
    ['user_changed', '{"version":3}'],
    ['user_changed', '{"user":"7","version":3}'],
    ['user_deleted', '{"user":7}'],
    ['clients', '{}'],
    ['clients', '{"versions":[]}'],
    ['clients', '{"versions":null}'],
    ['clients', '{"versions":{"lkc_a":"3"}}'],
    ['snapshot', '{"users":[],"statuses":[],"last":true,"remember":905}'],
    ['snapshot', '{"tokens":[1,null],"users":[],"statuses":[],"last":true,"remember":905}'],
    ['snapshot', '{"tokens":[],"statuses":[],"last":true,"remember":905}'],
    ['snapshot', '{"tokens":[],"users":[{"user":7}],"statuses":[],"last":true,"remember":905}'],
    ['snapshot', '{"tokens":[],"users":[],"last":true,"remember":905}'],
    ['snapshot', '{"tokens":[],"users":[],"statuses":[{"user":7,"version":3}],"last":true,"remember":905}'],
    ['snapshot', '{"tokens":[],"users":[],"statuses":[],"last":true}'],
    ['snapshot', '{"tokens":[],"users":[],"statuses":[],"last":true,"remember":0}'],
  ];
  for (const [event, data] of wrong) t.throws(() => read(event, data), /malformed/, `${event} ${data}`);
  t.end();
});
