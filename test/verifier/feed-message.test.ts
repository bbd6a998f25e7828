import { test } from 'tap';
import { readMessage } from '../../packages/verifier/src/feed-message.ts';

const read = (event: string, data: string) => readMessage({ event, data, id: undefined });

test('reads the events of the feed', (t) => {
  t.strictSame(read('heartbeat', '{}'), { type: 'heartbeat' });
  t.strictSame(read('revoked', '{"token":11,"user":7}'), { type: 'revoked', token: 11 });
  t.strictSame(read('user_revoked', '{"user":7,"before":90}'), { type: 'user_revoked', user: 7, before: 90 });
  t.strictSame(read('user_changed', '{"user":7,"version":3}'), { type: 'user_changed', user: 7 });
  t.strictSame(
    read('snapshot', '{"tokens":[11,12],"users":[{"user":7,"before":90}],"last":true,"remember":905}'),
    {
      type: 'snapshot',
      tokens: [11, 12],
      users: [{ user: 7, before: 90 }],
      isLast: true,
      remember: 905,
    },
  );
  t.match(read('snapshot', '{"tokens":[],"users":[],"last":false,"remember":905}'), { isLast: false });
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
    ['snapshot', '{"users":[],"last":true,"remember":905}'],
    ['snapshot', '{"tokens":[1,null],"users":[],"last":true,"remember":905}'],
    ['snapshot', '{"tokens":[],"last":true,"remember":905}'],
    ['snapshot', '{"tokens":[],"users":[{"user":7}],"last":true,"remember":905}'],
    ['snapshot', '{"tokens":[],"users":[],"last":true}'],
    ['snapshot', '{"tokens":[],"users":[],"last":true,"remember":0}'],
  ];
  for (const [event, data] of wrong) t.throws(() => read(event, data), /malformed/, `${event} ${data}`);
  t.end();
});
