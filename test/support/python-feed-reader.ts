import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { UserToken } from '@latchkey/verifier';
import type { Test } from 'tap';
import { claimsOf } from './client.ts';
import { readDocument } from './documents.ts';
import { bareEnvironment } from './environment.ts';
import { testFolder } from './folder.ts';
import { readBlocks } from './markdown.ts';
import { PYTHON_PATH } from './python.ts';

/** Asks the reader of the page about a token in each line of its input, and says goodbye at the end of it. */
const ASK = `
import json, os, sys, threading, time
from feed import Feed

feed = Feed(os.environ["URL"], os.environ["ID"], os.environ["SECRET"])
threading.Thread(target=feed.follow, daemon=True).start()
for line in sys.stdin:
    sid, user, iat, exp = json.loads(line)
    ended = feed.has_ended(sid, user) or exp <= time.time()
    print("ended" if ended else "ask" if feed.must_ask(iat) else "good", flush=True)
feed.goodbye()
`;

/** The reader in Python of docs/integrating/feed.md, as a process. */
export interface PythonFeedReader {
  /** @throws with the `code` of a verifier that refuses the token */
  verify(token: string): Promise<UserToken>;
  kill(signal: NodeJS.Signals): void;
  /** Says goodbye. @returns what it has written to standard error */
  end(): Promise<string>;
}

export function startPythonFeedReader(
  t: Test,
  { url, id, secret }: Record<'url' | 'id' | 'secret', string>,
): PythonFeedReader {
  const folder = testFolder(t);
  const blocks = readBlocks(readDocument('docs/integrating/feed.md'));
  const block = blocks.find(({ language }) => language === 'python');
  writeFileSync(join(folder, 'feed.py'), block?.text ?? '');
  writeFileSync(join(folder, 'ask.py'), ASK);
  const child = spawn('python3', ['ask.py'], {
    cwd: folder,
    env: {
      ...bareEnvironment({ URL: url, ID: id, SECRET: secret, PYTHONDONTWRITEBYTECODE: '1' }),
      PATH: PYTHON_PATH,
    },
  });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const over = once(child, 'close');
  const waiting: ((line: string) => void)[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => waiting.shift()?.(line));
  void over.then(() => {
    for (const each of waiting) each('ended');
  });
  child.stdin.on('error', () => undefined);
  t.teardown(async () => {
    child.kill('SIGKILL');
    await over;
  });
  return {
    async verify(token) {
      const { sid, sub, iat, exp = Number.MAX_SAFE_INTEGER } = claimsOf(token);
      const answer = new Promise<string>((resolve) => waiting.push(resolve));
      child.stdin.write(`${JSON.stringify([sid, Number(sub), iat, exp])}\n`);
      const found = await answer;
      if (found === 'good') return {} as UserToken;
      throw Object.assign(new Error(found), { code: found === 'ask' ? 'unavailable' : 'invalid_token' });
    },
    kill: (signal) => void child.kill(signal),
    async end() {
      child.stdin.end();
      await over;
      return errors;
    },
  };
}
