import { randomBytes } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { makeKeyRing } from '../../../src/infra/crypto/key-ring.ts';
import { until } from '../../support/until.ts';
import { generateSigningKey, parseSigningKey } from '../../../src/infra/crypto/keys.ts';

function aFolder(t: Test) {
  const directory = t.testdir({});
  return {
    directory,
    add(name: string): string {
      const text = generateSigningKey();
      writeFileSync(join(directory, name), text);
      return parseSigningKey(text, name).kid;
    },
    spoil(name: string) {
      writeFileSync(join(directory, name), 'not a key');
    },
    remove(name: string) {
      rmSync(join(directory, name));
    },
  };
}

function open(t: Test, directory: string, errors: Error[] = []) {
  let secrets = randomBytes(32).toString('base64url');
  const ring = makeKeyRing({
    signingKeysDir: directory,
    readRefreshSecrets: () => secrets,
    interval: 20,
    onError: (error) => errors.push(error),
  });
  t.teardown(() => {
    ring.close();
  });
  const setSecrets = (text: string) => {
    secrets = text;
  };
  return { ring, setSecrets };
}

const kids = (ring: ReturnType<typeof makeKeyRing>) => ring.current().signing.map(({ kid }) => kid);

test('the highest file name signs, and every key verifies', (t) => {
  const folder = aFolder(t);
  const [a, c, b] = [folder.add('0001.pem'), folder.add('0003.pem'), folder.add('0002.pem')];
  writeFileSync(join(folder.directory, 'README'), 'no key');
  const { ring } = open(t, folder.directory);
  t.strictSame(kids(ring), [c, b, a]);
  t.end();
});

test('a folder without a key is refused at the start', (t) => {
  t.throws(() => open(t, aFolder(t).directory), /holds no \.pem file/);
  t.end();
});

test('keys that come and go are taken over without a restart', async (t) => {
  const folder = aFolder(t);
  const old = folder.add('0001.pem');
  const { ring } = open(t, folder.directory);
  const told: string[][] = [];
  ring.onChange((keys) => {
    told.push(keys.signing.map(({ kid }) => kid));
    return Promise.resolve();
  });

  const next = folder.add('0002.pem');
  await until(() => kids(ring).length === 2);
  t.strictSame(kids(ring), [next, old]);

  folder.remove('0001.pem');
  await until(() => kids(ring).length === 1);
  t.strictSame(kids(ring), [next]);
  t.strictSame(told, [[next, old], [next]], 'listeners are told of each change');
});

test('refresh secrets change without a restart', async (t) => {
  const folder = aFolder(t);
  folder.add('0001.pem');
  const { ring, setSecrets } = open(t, folder.directory);
  const [before] = ring.current().refresh;
  setSecrets(Buffer.alloc(32, 7).toString('base64url'));
  await until(() => ring.current().refresh[0]?.kid !== before?.kid);
  t.equal(ring.current().refresh.length, 1);
});

test('a key that cannot be used is reported, and those in use stay', async (t) => {
  const folder = aFolder(t);
  const good = folder.add('0001.pem');
  const errors: Error[] = [];
  const { ring } = open(t, folder.directory, errors);
  folder.spoil('0002.pem');
  await until(() => errors.length > 0);
  t.match(errors[0]?.message, /0002\.pem/);
  t.strictSame(kids(ring), [good]);
});
